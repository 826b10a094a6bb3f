"""Prompts with known laws, like and unlike one another, from which runs are drawn.

Real prompts differ: in how often they are answered rightly, in the size of their scores, in
how heavy the tails of those are. `FIXED` are prompts that every run measures, `POPULATIONS`
such that a run draws its prompts from, `VERDICTS` those on which `advise` is tried.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product

import numpy as np
from scipy import optimize

from mse_lab.mse.pools import Pools
from mse_lab.mse.regime import aggregate_place
from mse_lab.mse.rule import COMPARED_SIZES
from populations import choose, population, scaled, tilt, with_gradient
from simulated import DIMENSIONS, KINDS, Design, make_design
from truths import Truth

UNBIASED = ("vanilla", "grpo", "oracle")
BIASED = ("centred", "grpo-std", "grpo-loo-std", "maxrl", "median", "quantile")
PROMPTS = 3000


@dataclass(frozen=True)
class Source:
    """Where the prompts of a run come from, and the size of its pools."""

    make: Callable[[], Design]
    prompts: int | None = 60  # Drawn at random; None for all of them, each time the same.
    reference: int = 256
    blocks: int = 2
    largest: int = 64
    estimators: tuple[str, ...] = UNBIASED
    extreme: bool = False  # Beyond what must be covered.

    @cached_property
    def whole(self) -> Design:
        """All prompts."""
        return self.make()

    @cached_property
    def truth(self) -> Truth:
        """Exact figures of all prompts."""
        return Truth(self.whole)

    def draw(self, rng: np.random.Generator) -> tuple[Design, Pools]:
        """Draw the prompts of a run, and its pools."""
        own = self.whole
        if self.prompts is not None:
            own = choose(own, rng.integers(0, own.prompts, self.prompts))
        return own, own.draw(rng, self.reference, self.blocks, self.largest)


def log_normal(seed, spread, prompts):
    """Draw scales e^(spread N)."""
    return np.exp(spread * np.random.default_rng(seed).standard_normal(prompts))


def uniform(low, high, seed=0):
    """Draw values."""
    return np.random.default_rng(seed).uniform(low, high, PROMPTS)


def in_two_parts(first, second):
    """Draw values of which half lie in the first range, the rest in the second."""
    rest = np.random.default_rng(1).random(PROMPTS) >= 0.5
    return np.where(rest, uniform(*second), uniform(*first))


def with_values(rng, value_P, kinds=KINDS, tails=0.0):
    """Make prompts of given values; scores' sizes are log-normal with heavy tails."""
    prompts = len(value_P)
    probability = rng.dirichlet(np.ones(kinds), size=prompts)
    right = probability.cumsum(-1) <= value_P[:, None]
    none = ~right.any(-1)
    right[none, 0] = True
    rest = probability[none, 1:] / probability[none, 1:].sum(-1, keepdims=True)
    probability[none, 1:] = rest * (1 - value_P[none, None])
    probability[none, 0] = value_P[none]
    size = np.where(right, 1.0, 2.0) * np.exp(tails * rng.standard_normal(right.shape))
    score = size[..., None] * rng.standard_normal((prompts, kinds, DIMENSIONS))
    score -= (probability[..., None] * score).sum(1, keepdims=True)
    return Design(probability, score, right.astype(float))


def make_prompts(seed, value_P, kinds=KINDS, tails=0.0, right=0.5, shared=2.0, spread=1.0):
    """Make prompts of given values with a part of the gradient in common.

    Args:
        seed: Of all draws.
        value_P: About the chance of being right: the most kinds that fit below it are.
        kinds: Kinds of completions of each prompt.
        tails: Log-normal spread of the scores' lengths, of all prompts or of each.
        right: Length of right completions' scores over that of wrong ones.
        shared: Length of the common part along the centred reward.
        spread: Of the Dirichlet distribution of the kinds' chances; small for few kinds.
    """
    rng = np.random.default_rng(seed)
    value_P1 = np.asarray(value_P)[:, None]
    wanted = rng.dirichlet(np.full(kinds, spread), size=len(value_P))
    is_right = wanted.cumsum(-1) <= value_P1
    is_right[:, 0], is_right[:, -1] = True, False
    # The chances of right and of wrong kinds add up to V and 1 - V.
    total = np.where(
        is_right,
        np.where(is_right, wanted, 0).sum(-1, keepdims=True) / value_P1,
        np.where(is_right, 0, wanted).sum(-1, keepdims=True) / (1 - value_P1),
    )
    probability = wanted / total
    tail_P1 = np.broadcast_to(tails, value_P1.shape[:1])[:, None]
    size = 2 * np.exp(tail_P1 * rng.standard_normal(is_right.shape))
    size *= np.where(is_right, right, 1.0)
    score = size[..., None] * rng.standard_normal((*is_right.shape, DIMENSIONS))
    score -= (probability[..., None] * score).sum(1, keepdims=True)
    common = np.zeros((len(value_P), DIMENSIONS))
    common[:, 0] = shared
    return tilt(Design(probability, score, is_right * 1.0), common)


def uncorrelated(seed, low, high, tails, signal=0.04, radii=12):
    """Make prompts with rho = 1: W = s r u + t v / 2, r log-normal and independent of Z.

    s, t = -1, 1; E[Z | t] = V + signal t, so that g = signal v / 2.
    """
    rng = np.random.default_rng(seed)
    value_P = rng.uniform(low, high, PROMPTS)
    axes = np.linalg.qr(rng.standard_normal((PROMPTS, DIMENSIONS, DIMENSIONS)))[0]
    s, which, t, z = np.array(list(product((-1, 1), range(radii), (-1, 1), (0, 1)))).T
    radius_PR = np.exp(tails * rng.standard_normal((PROMPTS, radii)))
    chance_PC = value_P[:, None] + signal * t
    probability_PC = np.where(z == 1, chance_PC, 1 - chance_PC) / (4 * radii)
    along_u = s * radius_PR[:, which]
    score = along_u[..., None] * axes[:, None, 0] + (t / 2)[:, None] * axes[:, None, 1]
    return Design(probability_PC, score, np.tile(z * 1.0, (PROMPTS, 1)))


def on_the_line(value_P):
    """Shrink right completions' scores until vanilla's MSE is the oracle's: b* = V/2."""

    def apart(right):
        prompts = make_prompts(3, value_P, right=right, shared=1.0)
        value, best = aggregate_place(prompts.moments())
        return best / value - 0.5

    right = optimize.brentq(apart, 0.05, 3.0, xtol=1e-4)
    return make_prompts(3, value_P, right=right, shared=1.0)


def graded(design):
    """Give every kind of completion a reward of its own."""
    rng = np.random.default_rng(4)
    return replace(design, reward_PC=rng.normal(1.0, 1.0, design.reward_PC.shape))


def with_bonus(design):
    """Add 0.1 to the reward of half of the kinds: 0, 0.1, 1 and 1.1, as for a format."""
    bonus = np.random.default_rng(4).random(design.reward_PC.shape) < 0.5
    return replace(design, reward_PC=np.round(design.reward_PC + 0.1 * bonus, 1))


def ends_and_middle():
    """Draw values near 0 or 1 for 70% of the prompts."""
    ends = in_two_parts((0.005, 0.03), (0.97, 0.995))
    middle = np.random.default_rng(2).random(PROMPTS) < 0.3
    return np.where(middle, uniform(*MIDDLING), ends)


MIDDLING, BIMODAL, LOW = (0.1, 0.9), ((0.03, 0.12), (0.88, 0.97)), (0.01, 0.12)


def middling(**changes):
    """Make prompts of V from 0.1 to 0.9."""
    return partial(make_prompts, 0, uniform(*MIDDLING), **changes)


POPULATIONS = {
    "V 0.1 to 0.9": Source(middling()),
    "strong g": Source(middling(shared=12.0)),
    "weak g": Source(middling(shared=0.6)),
    "graded": Source(lambda: graded(middling()())),
    "half easy, half hard": Source(lambda: make_prompts(0, in_two_parts(*BIMODAL))),
    "heavy lengths": Source(middling(kinds=48, tails=0.8)),
    "20% distinct": Source(middling(kinds=24, spread=0.15)),
    "V near 0 or 1 on 70%": Source(lambda: make_prompts(0, ends_and_middle())),
    "P = 12": Source(middling(), prompts=12),
    "P = 30": Source(middling(), prompts=30),
    "P = 120": Source(middling(), prompts=120),
    "reference 64": Source(middling(), reference=64),
    "reference 16": Source(middling(), prompts=40, reference=16),
    "tails tied to V": Source(middling(kinds=48, tails=1.2 * (1 - uniform(*MIDDLING)))),
    "on the line": Source(lambda: on_the_line(uniform(*MIDDLING))),
    "bimodal, on the line": Source(lambda: on_the_line(in_two_parts(*BIMODAL))),
    "rho = 1, rare, heavy": Source(lambda: uncorrelated(5, 0.05, 0.3, 0.8), prompts=120),
    "the same, 64 replicates": Source(
        lambda: uncorrelated(5, 0.05, 0.3, 0.8), prompts=120, largest=32
    ),
    "V 0.01 to 0.12": Source(lambda: make_prompts(0, uniform(*LOW))),
    "the same, reference 1024": Source(
        lambda: make_prompts(0, uniform(*LOW)), reference=1024
    ),
    # A fifth of the prompts are right in one completion of the reference, or in none.
    "the same, reference 64": Source(
        lambda: make_prompts(0, uniform(*LOW)), reference=64, extreme=True
    ),
}


def _fixed(make, **changes):
    return Source(make, prompts=None, **changes)


def _own():
    return make_design(np.random.default_rng(0))


def _one_of_60(size):
    return scaled(_own(), np.where(np.arange(60) == 7, size, 1))


def _graded_below_zero():
    rewards = -5 + np.random.default_rng(1).standard_normal(_own().reward_PC.shape)
    return replace(_own(), reward_PC=rewards)


def _five_active():
    active = (np.arange(60) < 5)[:, None]
    return replace(_own(), reward_PC=_own().reward_PC * active)


def _u_shaped():
    values = np.clip(np.random.default_rng(7).beta(0.4, 0.4, 100), 0.004, 0.996)
    made = with_values(np.random.default_rng(7), values)
    return scaled(made, np.exp(0.6 * np.random.default_rng(8).normal(size=100)))


def _low_values():
    rng = np.random.default_rng(2)
    return with_values(np.random.default_rng(2), rng.uniform(0.02, 0.14, 60))


def _with_tails(seed, value_P):
    return with_values(np.random.default_rng(seed), value_P, 256, 1.2)


FIXED = {
    "own": _fixed(_own),
    "mean V 0.08": _fixed(_low_values),
    "graded rewards of mean -5": _fixed(_graded_below_zero),
    "6 biased estimators": _fixed(_own, estimators=("oracle", *BIASED)),
    "5 of 60 active": _fixed(_five_active),
    "scales e^N": _fixed(lambda: scaled(_own(), log_normal(3, 1.0, 60)), blocks=4),
    "scales e^1.5N": _fixed(lambda: scaled(_own(), log_normal(4, 1.5, 60)), blocks=4),
    "one of 60 x 5": _fixed(lambda: _one_of_60(5)),
    "P = 4": _fixed(lambda: make_design(np.random.default_rng(5), 4)),
    "P = 8": _fixed(lambda: make_design(np.random.default_rng(6), 8)),
    "U-shaped V": _fixed(_u_shaped),
    "best constant": _fixed(_own, estimators=("oracle", "best-constant")),
    "one of 60 x 30": _fixed(lambda: _one_of_60(30), extreme=True),
    "P = 1": _fixed(lambda: make_design(np.random.default_rng(9), 1), extreme=True),
    "log-normal tails": _fixed(
        lambda: _with_tails(10, np.random.default_rng(10).uniform(*MIDDLING, 60)),
        extreme=True,
    ),
    "V = 0.015, log-normal tails": _fixed(
        lambda: _with_tails(11, np.full(60, 0.015)), extreme=True
    ),
}


def little_apart(share):
    """Shrink what tells the prompts' gradients apart to this share."""
    design = population(np.random.default_rng(1))
    design = choose(design, design.moments().variance > 0.05)
    gradient_PD = design.gradient_PD
    mean = gradient_PD.mean(0)
    return with_gradient(design, mean + share * (gradient_PD - mean))


# The length of the step, in units of the population's scores, that gives a rare prompt a
# gradient of its own.
OWN = 10.0


# At this share of what tells gradients apart groups of 8 are the best.
EIGHT = 0.4


def with_rare(one_in, size, apart=1.0):
    """Give one prompt in so many larger scores, and a gradient of its own: they carry c1.

    c1 grows by more than c3, so the best size is another one than that of the rest. Those
    are `little_apart` by the share `apart`.
    """
    rng = np.random.default_rng(11)
    plain = population(np.random.default_rng(1)) if apart == 1 else little_apart(apart)
    rare_P = rng.random(plain.prompts) < 1 / one_in
    step_PD = rng.standard_normal((plain.prompts, plain.score_PCD.shape[-1]))
    step_PD *= OWN * rare_P[:, None] / np.linalg.norm(step_PD, axis=1, keepdims=True)
    return scaled(tilt(plain, step_PD), np.where(rare_P, float(size), 1.0))


def opposed():
    """Half of the prompts pull one way and half the other: little is left of g."""
    plain = make_design(np.random.default_rng(1), prompts=PROMPTS)
    step_PD = np.zeros((PROMPTS, DIMENSIONS))
    step_PD[:, 0] = np.where(np.arange(PROMPTS) % 2, 2.0, -2.0)
    return tilt(plain, step_PD)


def tied_to_values(most):
    """Make the scores of hard prompts so many times as large as those of easy ones."""
    plain = population(np.random.default_rng(1))
    value = plain.moments().value
    return scaled(plain, most ** (1 - value))


def both_unlike():
    """Half of the prompts are hard and half are easy; their scores are e^(0.8 N)."""
    rng, count = np.random.default_rng(3), population(np.random.default_rng(1)).prompts
    hard_P = rng.random(count) < 0.5
    low_P, high_P = rng.uniform(0.02, 0.1, count), rng.uniform(0.9, 0.98, count)
    common = np.zeros((count, DIMENSIONS))
    common[:, 0] = 1
    made = tilt(with_values(rng, np.where(hard_P, low_P, high_P)), common)
    return scaled(made, log_normal(5, 0.8, count))


def regrets_of(design, sizes=range(2, 257)):
    """By how much each size costs more than the best of them, of GRPO-type."""
    truth = Truth(design)
    costs = {size: truth.cost(size) for size in sizes}
    least = min(costs.values())
    return {size: cost / least - 1 for size, cost in costs.items()}


# The group size of the training that is judged: TRL's default.
PRESENT = 8


def where_eight_costs(regret, of_grpo=False):
    """Shrink what tells gradients apart until groups of 8 cost so much more than the best.

    Of GRPO-type they are then too small, of the user's own loss too large.
    """
    low, high = 0.1, 1.0
    for _ in range(20 if of_grpo else 12):
        middle = (low + high) / 2
        design = little_apart(middle)
        if of_grpo:
            raises = regrets_of(design)[PRESENT] > regret
        else:
            costs = Truth(design).costs("grpo-std(eps=0.0001)", COMPARED_SIZES, PRESENT)
            best = min(costs, key=costs.__getitem__)
            # Smaller groups are better where gradients differ more.
            raises = not (best < PRESENT and 1 / costs[best] - 1 > regret)
        low, high = (middle, high) if raises else (low, middle)
    return design


def first(size, make):
    """Take the first prompts of a population as a set."""
    return choose(make(), np.arange(size))


@dataclass(frozen=True)
class Case:
    """A population on which `advise` is tried."""

    make: Callable[[], Design]
    size: float = math.inf  # How many prompts there are, where they are a set.
    one_in: int | None = None  # How rare the kind is whose prompts alone tell the verdict.

    @cached_property
    def whole(self) -> Design:
        """All prompts."""
        return self.make()


def _of(name):
    return lambda: POPULATIONS[name].whole


def _sets():
    """List sets of prompts: the first of some populations, and with a rare kind."""
    for size, name in product((36, 200), ("V 0.1 to 0.9", "half easy, half hard")):
        yield f"these {size}: {name}", Case(partial(first, size, _of(name)), size=size)
    for size in (60, 200):
        make = partial(first, size, partial(with_rare, 20, 3))
        yield f"these {size}: 1 in 20, scores x3", Case(make, size=size)


VERDICTS = {
    **{name: Case(_of(name)) for name in ("V 0.1 to 0.9", "weak g")},
    "0, 0.1, 1 and 1.1": Case(lambda: with_bonus(_of("V 0.1 to 0.9")())),
    "half easy, half hard": Case(_of("half easy, half hard")),
    "both, scores e^(0.8 N)": Case(both_unlike),
    **{name: Case(_of(name)) for name in ("heavy lengths", "V 0.01 to 0.12")},
    "G = 8 costs 6% more": Case(partial(where_eight_costs, 0.06, of_grpo=True)),
    "little tells gradients apart": Case(partial(little_apart, 0.15)),
    "yours costs 4% more": Case(partial(where_eight_costs, 0.04)),
    "yours costs 6% more": Case(partial(where_eight_costs, 0.06)),
    **{
        f"1 in {one_in}, scores x{size}": Case(
            partial(with_rare, one_in, size), one_in=one_in
        )
        for one_in, size in ((20, 2), (20, 3), (40, 4), (100, 6))
    },
    **{
        f"8 but for 1 in {one_in}, x{size}": Case(
            partial(with_rare, one_in, size, EIGHT), one_in=one_in
        )
        for one_in, size in ((20, 3), (30, 3), (50, 3), (100, 5))
    },
    "two opposed halves": Case(opposed),
    **{
        f"scores x{most} where hard": Case(partial(tied_to_values, most))
        for most in (8, 30)
    },
    **dict(_sets()),
}
