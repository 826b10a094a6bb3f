"""Simulated prompts of known laws, pools and tables of them: exact truths at no cost.

Each prompt has C kinds of completions with probabilities, scores of mean zero in a few
dimensions and rewards; right completions have smaller scores, as in language models.
"""

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from mse_lab.answers.advice_evidence import ask, evidence_of_run, evidence_of_samples
from mse_lab.api.measure import analyse
from mse_lab.config.probe_files import parse_probe
from mse_lab.config.training import DEFAULT
from mse_lab.estimators.groups import is_binary
from mse_lab.mse.laws import WRONG_RIGHT
from mse_lab.mse.moments import Moments
from mse_lab.mse.one_pool import PromptSample, kept_weights
from mse_lab.mse.pools import Pools, without_diagonal
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.mse.samples import Samples

KINDS, DIMENSIONS = 12, 6
POPULATION, PROMPTS = 4000, 60
FIRST = np.eye(DIMENSIONS)[0]  # An axis along which gradients have a part in common.


@dataclass(frozen=True, eq=False)
class Design:
    """P prompts with known laws."""

    probability_PC: np.ndarray
    score_PCD: np.ndarray
    reward_PC: np.ndarray

    @property
    def prompts(self):
        return len(self.reward_PC)

    def mean(self, values_PC):
        return (self.probability_PC * values_PC).sum(-1)

    @property
    def gradient_PD(self):
        return np.einsum(
            "pc,pc,pcd->pd", self.probability_PC, self.reward_PC, self.score_PCD
        )

    def moments(self):
        norms2, rewards = (self.score_PCD**2).sum(-1), self.reward_PC
        value = self.mean(rewards)
        return Moments(
            norm2=self.mean(norms2),
            reward_norm2=self.mean(rewards * norms2),
            reward2_norm2=self.mean(rewards**2 * norms2),
            value=value,
            variance=self.mean((rewards - value[:, None]) ** 2),
            gradient2=(self.gradient_PD**2).sum(-1),
        )

    def some(self, rng, count):
        """Draw prompts, any of them again."""
        return choose(self, rng.integers(0, self.prompts, count))

    def draw(self, rng, reference, blocks, largest):
        """Draw what a run would leave: pools of `blocks` blocks of `largest`."""
        counts = (reference // 2, reference // 2, blocks * largest)
        return self.pools(*(self.pick(rng, count) for count in counts), largest)

    def pools(self, first_PN, second_PN, own_PN, largest):
        """Give the pools of these kinds of completions: two halves, and replicates."""
        (first, z_first), (second, z_second), (scores, rewards) = (
            self.completions(kinds) for kinds in (first_PN, second_PN, own_PN)
        )
        r_a, r_b = (_leave_one_out(z, w) for z, w in ((z_first, first), (z_second, second)))
        mean = (r_a + r_b) / 2
        in_blocks = scores.reshape(self.prompts, -1, largest, scores.shape[-1])
        return Pools(
            rewards_PN=rewards,
            lengths_PN=np.ones(rewards.shape, dtype=int),
            gram_PKGG=in_blocks @ in_blocks.swapaxes(-1, -2),
            products_PN=np.einsum("pnd,pd->pn", scores, mean),
            reference_rewards_PN=np.concatenate([z_first, z_second], axis=1),
            reference_product_P=(r_a * r_b).sum(-1),
            reference_distance2_P=((r_a - r_b) ** 2).sum(-1),
            between_PP=mean @ mean.T,
            halves_PP=(r_a - r_b) @ mean.T,
            kind_norms2_PNM=np.zeros((*rewards.shape, 0)),
            kind_products_PM=np.zeros((self.prompts, 0)),
            logit_norms2_PN=np.sqrt((scores**2).sum(-1)),
        )

    def sample(self, rng, completions):
        """Draw a few completions of each prompt, all of them with scores."""
        scores, rewards = self.completions(self.pick(rng, completions))
        every = np.arange(completions)
        return [make_sample(*one, every) for one in zip(rewards, scores, strict=True)]

    def pick(self, rng, count):
        uniform = rng.random((self.prompts, count, 1))
        return (uniform > self.probability_PC.cumsum(-1)[:, None, :-1]).sum(-1)

    def completions(self, kinds_PN):
        scores = np.take_along_axis(self.score_PCD, kinds_PN[..., None], axis=1)
        return scores, np.take_along_axis(self.reward_PC, kinds_PN, axis=1)


def with_rewards(pools, change):
    """Change the rewards alike in both pools; the products stay as they are."""
    rewards = pools.rewards_PN, pools.reference_rewards_PN
    own, reference = map(change, rewards)
    return replace(pools, rewards_PN=own, reference_rewards_PN=reference)


def norms_only(pools, prompts=slice(None)):
    """Forget the products between completions of some prompts."""
    gram = pools.gram_PKGG.copy()
    index = np.arange(gram.shape[-1])
    gram[prompts] = np.nan
    gram[..., index, index] = pools.gram_PKGG[..., index, index]
    return replace(pools, gram_PKGG=gram)


def make_sample(rewards_N, score_ND, scored_K):
    """The sample of one prompt by the scores of all its completions."""
    score_KD = score_ND[scored_K]
    vectors_MD = kept_weights(rewards_N, scored_K) @ score_KD
    return PromptSample(
        rewards_N=rewards_N,
        scored_K=scored_K,
        gram_KK=score_KD @ score_KD.T,
        gradient_D=vectors_MD[0],
        inner_MF=vectors_MD[1:],
        lengths_N=np.ones(len(rewards_N), dtype=np.int64),
        logit_norms2_N=np.sqrt((score_ND**2).sum(-1)),
    )


def analysed(pools, sizes, name="pools", **settings):
    return analyse(vars(pools), group_sizes=sizes, name=name, **settings)


def _leave_one_out(rewards_PN, scores_PND):
    centred = rewards_PN - rewards_PN.mean(-1, keepdims=True)
    return np.einsum("pn,pnd->pd", centred, scores_PND) / (rewards_PN.shape[1] - 1)


def draw_kinds(rng, value_P, kinds=KINDS, spread=1.0):
    """Draw chances of kinds; right are the most that fit below V, and one at the least."""
    chance_PC = rng.dirichlet(np.full(kinds, spread), size=len(value_P))
    right_PC = chance_PC.cumsum(-1) <= value_P[:, None]
    right_PC[:, 0] = True
    return chance_PC, right_PC


def with_scores(rng, chance_PC, right_PC, right=0.5, tails=None):
    """Make prompts of these kinds of completions, with scores of mean zero.

    Those of right ones are `right` times as long as those of wrong ones, and all e^(tails
    N) times as long, which draws nothing where there are no `tails`.
    """
    size_PC = np.where(right_PC, 2.0 * right, 2.0)
    if tails is not None:
        tail_P1 = np.broadcast_to(tails, len(size_PC))[:, None]
        size_PC *= np.exp(tail_P1 * rng.standard_normal(size_PC.shape))
    score_PCD = size_PC[..., None] * rng.standard_normal((*size_PC.shape, DIMENSIONS))
    score_PCD -= (chance_PC[..., None] * score_PCD).sum(1, keepdims=True)
    return Design(chance_PC, score_PCD, right_PC.astype(float))


def make_design(rng, prompts=60, values=(0.1, 0.9)):
    """Make prompts whose values lie between the two given."""
    return with_scores(rng, *draw_kinds(rng, rng.uniform(*values, size=prompts)))


def make_pools(prompts, reference, blocks, largest, seed=0, **options):
    """Pools of prompts that are made, as a run would leave them."""
    rng = np.random.default_rng(seed)
    return make_design(rng, prompts, **options).draw(rng, reference, blocks, largest)


def with_values(rng, value_P):
    """Make prompts whose chances of being right are these where one kind alone is right."""
    chance_PC, right_PC = draw_kinds(rng, value_P)
    none = chance_PC[:, 0] > value_P
    rest = chance_PC[none, 1:] / chance_PC[none, 1:].sum(-1, keepdims=True)
    chance_PC[none, 1:] = rest * (1 - value_P[none, None])
    chance_PC[none, 0] = value_P[none]
    return with_scores(rng, chance_PC, right_PC, tails=0.0)


def make_prompts(seed, value_P, kinds=KINDS, tails=0.0, right=0.5, shared=2.0, spread=1.0):
    """Make prompts of given values with a part of the gradient in common.

    Args:
        seed: Of all draws.
        value_P: The chance of being right.
        kinds: Kinds of completions of each prompt.
        tails: Log-normal spread of the scores' lengths, of all prompts or of each.
        right: Length of right completions' scores over that of wrong ones.
        shared: Length of the common part along the centred reward.
        spread: Of the Dirichlet distribution of the kinds' chances; small for few kinds.
    """
    rng = np.random.default_rng(seed)
    wanted, is_right = draw_kinds(rng, value_P, kinds, spread)
    # The chances of right and of wrong kinds add up to V and 1 - V.
    for kind, value_P1 in ((is_right, value_P[:, None]), (~is_right, 1 - value_P[:, None])):
        total = np.where(kind, wanted, 0).sum(-1, keepdims=True) / value_P1
        wanted = np.where(kind, wanted / total, wanted)
    return tilt(with_scores(rng, wanted, is_right, right, tails), shared * FIRST)


def on_two_axes(
    seed,
    values,
    prompts=PROMPTS,
    radii=(1.0, 2.0),
    tails=0.0,
    right=1.0,
    signal=0.2,
    common=False,
    scale=1.0,
):
    """Make prompts with scores W = s r f(Z) u + t v / 2, u and v orthonormal.

    s, t = -1, 1 and the radii r have equal chances; f is 1, but `right` for right
    completions; E[Z | t] = V + signal t. So g = signal v / 2, and ||W||^2 is independent of
    Z where `right` is 1.

    Args:
        seed: Of all draws.
        values: Least and largest V.
        prompts: How many.
        radii: The r of all prompts.
        tails: They are multiplied by e^(tails N), each prompt's by its own.
        right: Length of right completions' scores over that of wrong ones, of each prompt
            or of all.
        signal: How far t moves the chance of being right.
        common: Whether v is that of the first prompt everywhere, so that c1 is zero.
        scale: Multiplies all scores.
    """
    rng = np.random.default_rng(seed)
    value_P = rng.uniform(*values, prompts)
    axes_PDD = np.linalg.qr(rng.standard_normal((prompts, DIMENSIONS, DIMENSIONS)))[0]
    u_PD, v_PD = np.moveaxis(np.where(common, axes_PDD[:1], axes_PDD)[:, :2], 1, 0)
    s, which, t, z = np.array([*product((-1, 1), range(len(radii)), (-1, 1), (0, 1))]).T
    radius_PR = radii * np.exp(tails * rng.standard_normal((prompts, len(radii))))
    chance_PC = value_P[:, None] + signal * t
    probability_PC = np.where(z == 1, chance_PC, 1 - chance_PC) / (4 * len(radii))
    along_u = s * radius_PR[:, which]
    along_u *= np.where(z == 1, np.broadcast_to(right, prompts)[:, None], 1.0)
    score_PCD = along_u[..., None] * u_PD[:, None] + (t / 2)[:, None] * v_PD[:, None]
    return Design(probability_PC, scale * score_PCD, np.tile(z * 1.0, (prompts, 1)))


def tilt(design, step_PD):
    """Add to the scores a step along the centred reward: g moves by Var(Z) times it."""
    residual = design.reward_PC - design.mean(design.reward_PC)[:, None]
    step_PCD = residual[..., None] * np.atleast_2d(step_PD)[:, None]
    return replace(design, score_PCD=design.score_PCD + step_PCD)


def population(rng, shared=2.0):
    """Prompts whose gradients have a part in common."""
    return tilt(make_design(rng, prompts=POPULATION), shared * FIRST)


def with_gradient(design, gradient):
    """Give every prompt this gradient, so that c1 = 0."""
    variance = design.moments().variance
    return tilt(design, (gradient - design.gradient_PD) / variance[:, None])


def scaled(design, scale_P):
    """Multiply the scores of each prompt."""
    return replace(design, score_PCD=design.score_PCD * np.asarray(scale_P)[:, None, None])


def choose(design, index):
    return replace(design, **{name: part[index] for name, part in vars(design).items()})


def advise_on(pools):
    """Advise from pools that are no run's."""
    return analysed(pools, [4]).advise()


def table_of(measured, size=math.inf):
    """The table of prompts of a run's pools, or of samples."""
    make = PromptTable.of_samples if isinstance(measured, Samples) else PromptTable.of_pools
    return make(measured, size=size)


def few_table(prompts, completions=16, seed=0):
    """The table of few completions of prompts of the population."""
    rng = np.random.default_rng(seed)
    some = population(np.random.default_rng(1)).some(rng, prompts)
    return table_of(Samples.of(some.sample(rng, completions)))


PROBE = parse_probe({"model": {"path": "none"}, "prompts": {"source": "none"}}, "probe")


def evidence_of_pools(pools, setting=DEFAULT, completions=0, **more):
    """A run of pools as evidence on a training."""
    run = analysed(pools, [2, 4, 8, 16], **more)
    return evidence_of_run(run, setting, completions=completions)


def evidence_of(samples, setting=DEFAULT, completions=0):
    """Few completions of each prompt as evidence on a training."""
    question = ask(setting, 0.95, completions=completions)
    about = PROBE, samples, setting, question
    return evidence_of_samples("few", *about, "budget", samples.prompts)


def sample(design, rng, reference=256, blocks=2, largest=16):
    """Draw the prompts of a run, and its pools."""
    return design.some(rng, PROMPTS).draw(rng, reference, blocks, largest)


def exact_table(design):
    """The table of prompts that are all there are, from their exact moments."""
    gradient_PD, prompts = design.gradient_PD, design.prompts
    return PromptTable(
        moments=design.moments(),
        products_PP=without_diagonal(gradient_PD @ gradient_PD.T),
        gradient_noise_P=np.zeros(prompts),
        values=WRONG_RIGHT if is_binary(design.reward_PC) else None,
        size=prompts,
    )


def known_table(c1, c2, c3, vanilla=1.0, gradient2=1.0, prompts=60):
    """The table of prompts that are all alike, with V = 1 and S = 1, of known constants."""
    each = c1 + gradient2  # ||g(x)||^2.
    weighted = (vanilla - c2 + 1) / 2
    figures = (1.0, weighted, vanilla + each, 1.0, c3 - each, each)
    return PromptTable(
        moments=Moments(*(np.full(prompts, figure) for figure in figures)),
        products_PP=without_diagonal(np.full((prompts, prompts), gradient2)),
        gradient_noise_P=np.zeros(prompts),
        values=WRONG_RIGHT,
    )
