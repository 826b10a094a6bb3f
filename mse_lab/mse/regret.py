"""Regret: how much more a group size costs than the best one, at most.

The cost of GRPO-type at group size G is N MSE = c1 G + c2 + c3 / (G-1); the regret of G is
cost(G) / cost(H) - 1 for the best size H, which is not known. So

    regret(G) <= max over all H of the upper end of the interval of cost(G) / cost(H) - 1:

whichever H is the best, the end at that H lies below the truth in 2.5% of runs, for
intervals of 95%. No correction for the number of sizes is needed. As a function of G the
regret falls to its least and rises again. So a bound x of the regret of a range of sizes is
wrong only where it is wrong at one of the range's two ends: in 5% of runs.

`tests/benchmarks/levels.py` measures how often a verdict on these bounds is false.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.budget import Constants, Population, mse_times_budget
from mse_lab.mse.intervals import LARGEST_LOG, Statistic

# Group sizes that are priced unless others are asked for; powers of two fit any batch.
SIZES = tuple(2**power for power in range(1, 9))
LARGEST = max(SIZES)

# By factors of about 2^(1/4): the best costs at most 0.4% more than the best of all.
COMPARED = tuple(sorted({round(2 ** (step / 4)) for step in range(4, 33)}))

# The regret up to which a group size counts as good as the best, and that from which on a
# bound says nothing.
TOLERANCE, LARGE = 0.05, 1.0

NO_BOUNDS: Mapping[int, float] = MappingProxyType({})


class Choice(NamedTuple):
    """The recommended group size, and bounds of its regret at a level of confidence."""

    size: int  # By `choose_size`.
    regret: float  # Upper bound of its regret; infinite where none is known.
    # Least and largest of the sizes whose regret is at most `near_regret`; this size alone
    # where that is more than 100%.
    near_best: tuple[int, int]
    # 5%, or the recommended size's in whole percents where that is more.
    near_regret: float


def percent_up(share: float) -> float:
    """Round an upper bound up to whole percents, to one at least: sizes lie apart.

    >>> percent_up(0.0312), percent_up(0.07), percent_up(0.0), percent_up(math.inf)
    (0.04, 0.07, 0.01, inf)
    """
    whole = math.ceil(round(100 * share, 6)) if share < math.inf else share
    return max(whole / 100, 0.01)


def _log_cost(population: Population, size: int) -> Statistic:
    def figure(constants: Constants) -> Floats:
        cost = mse_times_budget("grpo", constants, size)
        # A cost that is not positive becomes tiny, so that ratios to it have no bound.
        return np.log(np.maximum(cost, np.finfo(float).tiny))

    return population.statistic(figure)


def ratios_of_intervals(logs: Sequence[Statistic], level: float, most: float) -> Floats:
    """Bound from above the ratio of each of K costs to each other one, (K, K).

    Args:
        logs: The logarithms of the costs.
        level: Coverage of each ratio's interval.
        most: The most degrees of freedom, those of the prompts that carry the costs.
    """
    upper_KK = np.zeros((len(logs), len(logs)))
    for one, other in combinations(range(len(logs)), 2):
        _, low, high = (logs[one] - logs[other]).interval(level, most_degrees=most)
        upper_KK[one, other], upper_KK[other, one] = high, -low
    return np.where(
        upper_KK < LARGEST_LOG, np.exp(np.minimum(upper_KK, LARGEST_LOG)), math.inf
    )


def regret_bounds(population: Population, level: float) -> dict[int, float]:
    """Bound the regret of each size of `COMPARED`; any two bounds hold at the level."""
    logs = [_log_cost(population, size) for size in COMPARED]
    upper_KK = ratios_of_intervals(logs, level, population.effective_prompts)
    return dict(zip(COMPARED, (upper_KK.max(1) - 1).tolist(), strict=True))


def choose_size(
    costs: Mapping[int, float],
    bounds: Mapping[int, float] = NO_BOUNDS,
    tolerance: float = TOLERANCE,
    settable: Collection[int] = SIZES,
) -> int:
    """Choose the group size to recommend: the one rule, wherever a size is chosen.

    Of the sizes that cost at most the tolerated share more than the cheapest, those count
    that a trainer would be set to; the others only where there are none of these. It is the
    smallest of them whose bound of the regret is tolerated too; else the smallest.

    >>> choose_size({4: 1.2, 8: 1.02, 11: 1.0, 16: 1.04}, {11: 0.03, 16: 0.05})
    16

    Args:
        costs: Estimated cost of each size, in any unit.
        bounds: Upper bounds of the regret of sizes; a size without one is not shown.
        tolerance: How much more than the best size is tolerated.
        settable: The sizes that a trainer would be set to: powers of two, and the present
            one where there is one.
    """
    least = min(costs.values())
    near = [size for size in costs if costs[size] - least <= tolerance * abs(least)]
    usual = [size for size in near if size in settable] or near
    shown = [size for size in usual if bounds.get(size, math.inf) <= tolerance]
    return min(shown or usual)


def describe(size: int, bounds: Mapping[int, float]) -> Choice:
    """Describe a size by bounds of the regret of all sizes."""
    regret = bounds[size]
    within = max(TOLERANCE, percent_up(regret))
    near = [
        candidate for candidate, bound in bounds.items() if bound <= within <= LARGE
    ] or [size]
    return Choice(size, regret, (near[0], near[-1]), within)


def recommend(
    population: Population,
    bounds: Mapping[int, float],
    tolerance: float = TOLERANCE,
    present: int = SIZES[0],
) -> Choice:
    """Choose the group size, and describe it by the bounds of regret."""
    costs = mse_times_budget("grpo", population.constants, np.array(COMPARED))
    estimated = dict(zip(COMPARED, costs.tolist(), strict=True))
    settable = {*SIZES, present}
    return describe(choose_size(estimated, bounds, tolerance, settable), bounds)
