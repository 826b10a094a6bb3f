"""Runs on which the paper's statements are true or false by design, and the truth of each.

Verdicts are at the level 0.99 and seeds are fixed.
"""

import math
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np

from mse_lab.answers import statements as s
from simulated import DIMENSIONS, Design, analysed

SIZES = (4, 8, 16, 32, 64)
LEVEL, PROMPTS = 0.99, 60


def make_design(values, right=1.0, signal=0.2, common=False, scale=1.0):
    """Make prompts with scores W = s r f(Z) u + t v / 2, u and v orthonormal.

    s, t = -1, 1 and r = 1, 2 with equal chances; f is 1, but `right` for right
    completions, of each prompt or of all; E[Z | t] = V + signal t. So g = signal v / 2, and
    ||W||^2 is independent of Z where `right` is 1.

    Args:
        values: Least and largest V.
        right: Length of right completions' scores over that of wrong ones.
        signal: How far t moves the chance of being right.
        common: Whether v is that of the first prompt everywhere, so that c1 is zero.
        scale: Multiplies all scores.
    """
    rng = np.random.default_rng(0)
    value_P = rng.uniform(*values, size=PROMPTS)
    axes = np.linalg.qr(rng.standard_normal((PROMPTS, DIMENSIONS, DIMENSIONS)))[0]
    u, v = axes[:, 0], axes[:, 1]
    if common:
        u, v = np.tile(u[0], (PROMPTS, 1)), np.tile(v[0], (PROMPTS, 1))
    s, r, t, z = np.array(list(product((-1, 1), (1, 2), (-1, 1), (0, 1)))).T
    chance_PC = value_P[:, None] + signal * t
    probability_PC = np.where(z == 1, chance_PC, 1 - chance_PC) / 8
    lengths = np.where(z == 1, np.broadcast_to(right, PROMPTS)[:, None], 1.0)
    along_u, along_v = s * r * lengths, t / 2
    score_PCD = along_u[..., None] * u[:, None] + along_v[:, None] * v[:, None]
    return Design(probability_PC, scale * score_PCD, np.tile(z.astype(float), (PROMPTS, 1)))


DESIGNS = {
    # Scores independent of the reward: Assumption 2.
    "fair": make_design((0.3, 0.8)),
    # Right completions have small scores, as in language models.
    "quiet": make_design((0.5, 0.8), right=0.2),
    # On half of the prompts, and as much larger ones on the others: r is 0, r^2 is not.
    "mixed": make_design((0.5, 0.5), right=np.tile([0.6, 1.4], PROMPTS // 2)),
    # Right completions are rare and their scores long: zeta is far below T.
    "loud": make_design((0.05, 0.15), right=3.0, signal=0.05),
    # The same with many right ones: zeta is far above T.
    "easy": make_design((0.85, 0.95), right=3.0, signal=0.04),
    # One gradient for all prompts: c1 = 0.
    "common": make_design((0.5, 0.5), common=True),
    "small": make_design((0.3, 0.8), scale=0.5),
}


def evidence_of(name, pools, sizes, level=0.95, draws=500):
    return analysed(pools, sizes, name, level=level, resamples=draws)


@cache
def draw(kind, seed=1, sizes=SIZES, blocks=4):
    pools = DESIGNS[kind].draw(np.random.default_rng(seed), 1024, blocks, max(sizes))
    return evidence_of(f"{kind}-{seed}", pools, sizes, level=LEVEL)


def _with_gram(evidence, change):
    """Change <W_i, W_j> for i != j; score norms and so all moments stay."""
    gram = evidence.pools.gram_PKGG.copy()
    change(gram)
    index = np.arange(gram.shape[-1])
    gram[..., index, index] = evidence.pools.gram_PKGG[..., index, index]
    return replace(evidence, pools=replace(evidence.pools, gram_PKGG=gram))


def scores_with_a_mean(evidence):
    """Violate E[W] = 0: all scores share a component."""

    def change(gram):
        gram += 0.8 * evidence.pools.norms2_PN.mean()

    return _with_gram(evidence, change)


def scores_that_agree_in_large_groups(evidence):
    """Completions of different groups of four have scores in common.

    Vanilla's error then stays up where G grows, and GRPO-type's, whose weights sum to zero,
    falls below its law.
    """

    def change(gram):
        fours = np.arange(gram.shape[-1]) // 4
        gram += 3 * evidence.pools.norms2_PN.mean() * (fours[:, None] != fours)

    return _with_gram(evidence, change)


def scores_that_agree_in_fours(evidence):
    """Completions of one group of four have scores in common.

    GRPO-type's weights sum to zero: its error at G = 4 is far below the law.
    """

    def change(gram):
        fours = np.arange(gram.shape[-1]) // 4
        gram += 0.7 * evidence.pools.norms2_PN.mean() * (fours[:, None] == fours)

    return _with_gram(evidence, change)


def norms_only(evidence):
    """Forget the products between completions, so that there are no replicates."""
    return _with_gram(evidence, lambda gram: gram.fill(np.nan))


def is_true(about, moments, size=None):
    """Whether a statement about one run is true by its prompts' moments; None if unknown.

    Asymptotic statements, and those about no group size, are those for G to infinity.
    """
    trace, zeta = moments.trace_oracle.sum(), moments.zeta.sum()
    vanilla, best = moments.constant_baseline(0.0).sum(), moments.trace_best.sum()
    grpo = trace + zeta / ((size or math.inf) - 1)
    correlated = not np.allclose(moments.best_baseline, moments.value, rtol=1e-6)
    if about in (s.ON_AVERAGE, s.ON_EACH, s.GROUP_MEANS):
        return None if correlated else True
    if about in (s.ORDER, s.TRAININGS):
        return None
    if about is s.PROMPT_ONLY:
        return bool(trace <= best * (1 + 1e-9))
    if about is s.VANILLA:
        return bool(trace < vanilla)
    if about in (s.LARGE_GROUPS, s.NEAR_AT_8, s.NEAR_FROM_32):
        limit = vanilla if about is s.LARGE_GROUPS else 1.05 * trace
        return bool(max(grpo, trace) < limit) if size else None
    return True


def wholes(claims):
    """The claims about statements as a whole, by what they are about."""
    return {claim.about: claim for claim in claims if claim.group_size is None}


def take(design, prompts):
    parts = (design.probability_PC, design.score_PCD, design.reward_PC)
    return Design(*(part[:prompts] for part in parts))
