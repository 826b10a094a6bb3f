"""Prompts with known laws, like and unlike one another, from which runs are drawn.

Real prompts differ: in how often they are answered rightly, in the size of their scores, in
how heavy the tails of those are. `FIXED` are makers of prompts that every run measures,
from `POPULATIONS` a run draws its prompts, on `VERDICTS` `advise` is tried.
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
from simulated import (
    FIRST,
    Design,
    choose,
    make_design,
    make_prompts,
    on_two_axes,
    population,
    scaled,
    tilt,
    with_gradient,
    with_values,
)
from truths import Truth

PROMPTS = 3000


@dataclass(frozen=True)
class Source:
    """Where the prompts of a run come from, and the size of its pools."""

    make: Callable[[], Design]
    prompts: int = 60
    reference: int = 256
    largest: int = 64
    extreme: bool = False  # Beyond what must be covered.
    size: float = math.inf  # How many prompts there are, where they are a set.
    one_in: int | None = None  # How rare the kind is whose prompts alone tell the verdict.

    @cached_property
    def whole(self) -> Design:
        """All prompts."""
        return self.make()

    @cached_property
    def truth(self) -> Truth:
        """Exact figures of all prompts."""
        return Truth(self.whole)

    @property
    def rare_P(self) -> np.ndarray:
        """Whether each prompt is of the rare kind; of a source without one all are."""
        return choose_rare(self.whole.prompts, self.one_in or 1)[0]

    def draw(self, rng: np.random.Generator) -> tuple[Design, Pools]:
        """Draw the prompts of a run, and its pools of two blocks."""
        own = self.whole.some(rng, self.prompts)
        return own, own.draw(rng, self.reference, 2, self.largest)


def uniform(low, high, seed=0):
    """Draw values."""
    return np.random.default_rng(seed).uniform(low, high, PROMPTS)


def in_two_parts(first, second):
    """Draw values of which half lie in the first range, the rest in the second."""
    rest = np.random.default_rng(1).random(PROMPTS) >= 0.5
    return np.where(rest, uniform(*second), uniform(*first))


def weakly_tied():
    """Make prompts with rho = 1, whose scores have heavy tails, and little gradient."""
    return on_two_axes(5, (0.05, 0.3), PROMPTS, np.ones(12), tails=0.8, signal=0.04)


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
    "rho = 1, rare, heavy": Source(weakly_tied, prompts=120),
    "the same, 64 replicates": Source(weakly_tied, prompts=120, largest=32),
    "V 0.01 to 0.12": Source(lambda: make_prompts(0, uniform(*LOW))),
    "the same, reference 1024": Source(
        lambda: make_prompts(0, uniform(*LOW)), reference=1024
    ),
    # A fifth of the prompts are right in one completion of the reference, or in none.
    "the same, reference 64": Source(
        lambda: make_prompts(0, uniform(*LOW)), reference=64, extreme=True
    ),
}


def _own():
    return make_design(np.random.default_rng(0))


def _five_active():
    active = (np.arange(60) < 5)[:, None]
    return replace(_own(), reward_PC=_own().reward_PC * active)


def _u_shaped():
    values = np.clip(np.random.default_rng(7).beta(0.4, 0.4, 100), 0.004, 0.996)
    made = with_values(np.random.default_rng(7), values)
    return scaled(made, np.exp(0.6 * np.random.default_rng(8).normal(size=100)))


FIXED = {
    "own": _own,
    "5 of 60 active": _five_active,
    "one of 60 x 5": lambda: scaled(_own(), np.where(np.arange(60) == 7, 5, 1)),
    "P = 4": lambda: make_design(np.random.default_rng(5), 4),
    "P = 1": lambda: make_design(np.random.default_rng(9), 1),
    "U-shaped V": _u_shaped,
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


def choose_rare(count, one_in):
    """Choose the prompts of a rare kind; give the stream, too, that goes on from there."""
    rng = np.random.default_rng(11)
    return rng.random(count) < 1 / one_in, rng


def with_rare(one_in, size, apart=1.0):
    """Give one prompt in so many larger scores, and a gradient of its own: they carry c1.

    c1 grows by more than c3, so the best size is another one than that of the rest. Those
    are `little_apart` by the share `apart`.
    """
    plain = population(np.random.default_rng(1)) if apart == 1 else little_apart(apart)
    rare_P, rng = choose_rare(plain.prompts, one_in)
    step_PD = rng.standard_normal((plain.prompts, plain.score_PCD.shape[-1]))
    step_PD *= OWN * rare_P[:, None] / np.linalg.norm(step_PD, axis=1, keepdims=True)
    return scaled(tilt(plain, step_PD), np.where(rare_P, float(size), 1.0))


def opposed():
    """Half of the prompts pull one way and half the other: little is left of g."""
    plain = make_design(np.random.default_rng(1), prompts=PROMPTS)
    return tilt(plain, np.where(np.arange(PROMPTS) % 2, 2.0, -2.0)[:, None] * FIRST)


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
    made = tilt(with_values(rng, np.where(hard_P, low_P, high_P)), FIRST)
    return scaled(made, np.exp(0.8 * np.random.default_rng(5).standard_normal(count)))


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
    return choose(make(), slice(size))


def _of(name):
    return POPULATIONS[name].whole


def _sets():
    """List sets of prompts: the first of some populations, and with a rare kind."""
    for size, name in product((36, 200), ("V 0.1 to 0.9", "half easy, half hard")):
        yield (
            f"these {size}: {name}",
            Source(partial(first, size, partial(_of, name)), size=size),
        )
    for size in (60, 200):
        make = partial(first, size, partial(with_rare, 20, 3))
        yield f"these {size}: 1 in 20, scores x3", Source(make, size=size)


VERDICTS = {
    **{name: POPULATIONS[name] for name in ("V 0.1 to 0.9", "weak g")},
    "0, 0.1, 1 and 1.1": Source(lambda: with_bonus(_of("V 0.1 to 0.9"))),
    "half easy, half hard": POPULATIONS["half easy, half hard"],
    "both, scores e^(0.8 N)": Source(both_unlike),
    **{name: POPULATIONS[name] for name in ("heavy lengths", "V 0.01 to 0.12")},
    "G = 8 costs 6% more": Source(partial(where_eight_costs, 0.06, of_grpo=True)),
    "little tells gradients apart": Source(partial(little_apart, 0.15)),
    "yours costs 4% more": Source(partial(where_eight_costs, 0.04)),
    "yours costs 6% more": Source(partial(where_eight_costs, 0.06)),
    **{
        f"1 in {one_in}, scores x{size}": Source(
            partial(with_rare, one_in, size), one_in=one_in
        )
        for one_in, size in ((20, 2), (20, 3), (40, 4), (100, 6))
    },
    **{
        f"8 but for 1 in {one_in}, x{size}": Source(
            partial(with_rare, one_in, size, EIGHT), one_in=one_in
        )
        for one_in, size in ((20, 3), (30, 3), (50, 3), (100, 5))
    },
    "two opposed halves": Source(opposed),
    **{
        f"scores x{most} where hard": Source(partial(tied_to_values, most))
        for most in (8, 30)
    },
    **dict(_sets()),
}
