"""Runs on which the paper's statements are true or false by design.

Verdicts are at the level 0.99 and seeds are fixed.
"""

from dataclasses import replace
from functools import cache, partial

import numpy as np

from simulated import PROMPTS, analysed, norms_only, on_two_axes

SIZES = (4, 8, 16, 32, 64)
LEVEL = 0.99

DESIGNS = {
    # Scores independent of the reward: Assumption 2.
    "fair": on_two_axes(0, (0.3, 0.8)),
    # Right completions have small scores, as in language models.
    "quiet": on_two_axes(0, (0.5, 0.8), right=0.2),
    # On half of the prompts, and as much larger ones on the others: r is 0, r^2 is not.
    "mixed": on_two_axes(0, (0.5, 0.5), right=np.tile([0.6, 1.4], PROMPTS // 2)),
    # Right completions are rare and their scores long: zeta is far below T.
    "loud": on_two_axes(0, (0.05, 0.15), right=3.0, signal=0.05),
    # The same with many right ones: zeta is far above T.
    "easy": on_two_axes(0, (0.85, 0.95), right=3.0, signal=0.04),
    # One gradient for all prompts: c1 = 0.
    "common": on_two_axes(0, (0.5, 0.5), common=True),
    "small": on_two_axes(0, (0.3, 0.8), scale=0.5),
}


@cache
def draw(kind, seed=1, sizes=SIZES, blocks=4):
    pools = DESIGNS[kind].draw(np.random.default_rng(seed), 1024, blocks, max(sizes))
    return analysed(pools, sizes, f"{kind}-{seed}", level=LEVEL, resamples=500)


def scores_that_agree(share, where, evidence):
    """Give completions of a block scores in common: all, or those in, or not in, fours.

    GRPO-type's weights sum to zero. Where completions of one group of four agree, its error
    at G = 4 is far below the law; where those of different fours do, it is so at larger G,
    and vanilla's error stays up. All of them violate E[W] = 0.
    """
    pools = evidence.pools
    index = np.arange(pools.gram_PKGG.shape[-1])
    alike = index // 4 == index[:, None] // 4
    there = {"all": True, "in fours": alike, "between fours": ~alike}[where]
    more = share * pools.norms2_PN.mean() * (there & (index != index[:, None]))
    return replace(evidence, pools=replace(pools, gram_PKGG=pools.gram_PKGG + more))


scores_with_a_mean = partial(scores_that_agree, 0.8, "all")
scores_that_agree_in_large_groups = partial(scores_that_agree, 3, "between fours")
scores_that_agree_in_fours = partial(scores_that_agree, 0.7, "in fours")


def by_norms_only(evidence):
    """Forget the products between completions, so that there are no replicates."""
    return replace(evidence, pools=norms_only(evidence.pools))


def wholes(claims):
    """The claims about statements as a whole, by what they are about."""
    return {claim.about: claim for claim in claims if claim.group_size is None}
