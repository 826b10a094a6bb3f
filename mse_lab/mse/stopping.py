"""Stopping: whether few completions of some prompts are enough for an answer.

Looks are at prompts whose number grows by half. Two things end it, and each keeps its level
at the look that it ends at:

- **The decision.** By how much more than the best size the recommended one costs is bounded
  by an asymptotic confidence sequence, which holds at all looks together: with the first t
  prompts' mean and standard deviation sd of what they contribute, the mean lies within

      sd sqrt(2 (t r + 1) / (t^2 r) log(sqrt(t r + 1) / alpha))

  at every t in a share 1 - alpha of runs (Waudby-Smith et al., arXiv 2103.06476). A ratio
  of costs E z / E a is one of those q for which it does not exclude 0 for z - q a.
- **Precision.** The interval of log(G*-1) is narrow enough. An interval by Student's t
  keeps its level when a run stops for its width (Chow and Robbins 1965).

Neither ends it where too few prompts carry what is known.
"""

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Literal, NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.formatting import with_interval
from mse_lab.mse.budget import Population
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.regret import (
    COMPARED,
    SIZES,
    TOLERANCE,
    Choice,
    describe,
    smallest_near_best,
)
from mse_lab.mse.samples import Blocks, Samples

Stopped = Literal["regret", "width", "budget", "exhausted"]

# Half-width of the interval of log(G*-1) that is narrow enough: a factor of 1.4.
WIDTH = 0.35

# Prompts that must carry what is known: the spread of fewer tells little of the next one.
LEAST_CARRIERS = 10

RATE = 0.18  # r of the sequence, with which it is narrowest near 50 prompts.


def sequence_radius(count: int, level: float, rate: float = RATE) -> float:
    """Half-width of the confidence sequence of a mean, in standard deviations.

    >>> round(sequence_radius(54, 0.95), 3)
    0.413
    """
    known = count * rate + 1
    return math.sqrt(
        2 * known / (count**2 * rate) * math.log(math.sqrt(known) / (1 - level))
    )


def _contributions(population: Population) -> tuple[Floats, Floats]:
    """c1, c2 and c3, (3,), and by prompt what they are the means of, (P, 3)."""
    names = ("c1", "c2", "c3")
    found = [population.statistic(attrgetter(name)) for name in names]
    return (
        np.array([one.value for one in found]),
        np.stack([one.groups["prompts"][0] for one in found], axis=-1),
    )


def sequence_bounds(population: Population, level: float) -> dict[int, float]:
    """Bound the regret of each size of `COMPARED`; any two hold at all looks together."""
    values, apart_P3 = _contributions(population)
    values[0] = max(values[0], 0.0)
    sizes = np.array(COMPARED, dtype=float)
    factors = np.stack([sizes, np.ones_like(sizes), 1 / (sizes - 1)], axis=-1)
    cost = factors @ values
    spread = factors @ np.cov(apart_P3.T) @ factors.T
    # The q with (E z - q E a)^2 <= reach^2 Var(z - q a) lie between the roots of a square.
    reach2 = sequence_radius(len(apart_P3), level) ** 2
    cross = np.outer(cost, cost) - reach2 * spread
    own = np.diag(cross)
    root = np.sqrt(np.maximum(cross**2 - np.outer(own, own), 0))
    known = (own > 0) & (cost > 0)
    ratio = np.where(known, (cross + root) / np.where(known, own, 1), math.inf)
    return dict(zip(COMPARED, (ratio.max(1) - 1).tolist(), strict=True))


def choose_by_sequence(population: Population, level: float, regret: float) -> Choice:
    """Choose the smallest power of two whose regret is shown to be small enough.

    Else the smallest of the other sizes; else the one that the estimate has near the best.
    """
    bounds = sequence_bounds(population, level)
    shown = [size for size in (*SIZES, *COMPARED) if bounds[size] <= regret]
    near = smallest_near_best(population, regret / 2)
    return describe((*shown, near)[0], bounds)


def log_width(population: Population, level: float) -> float:
    """Half-width of the interval of log(G*-1); infinite where it has no end."""
    _, low, high = population.best_group_size(level)
    return math.log((high - 1) / (low - 1)) / 2 if 1 < low < high < math.inf else math.inf


def completions_wanted(samples: Samples, found: float, width: float = WIDTH) -> int | None:
    """Completions in all that a half-width takes; None where the one found has no end."""
    if math.isinf(found):
        return None
    return math.ceil(samples.completions * max(found / width, 1) ** 2)


class Decision(NamedTuple):
    """What a look says."""

    stop: Literal["regret", "width"] | None  # Why to stop; None to go on.
    choice: Choice  # The recommended size, and what is known of its regret and of others'.
    width: float  # Half-width of the interval of log(G*-1).
    # Completions in all that the wanted width takes; None if not in sight.
    wanted: int | None
    best: Estimate  # G* with its interval.

    @property
    def words(self) -> str:
        """The best size and its interval, for a line: all that early looks can tell."""
        return f"best group size {with_interval(self.best)}"


def decide(
    prompts: Sequence[Blocks],
    *,
    level: float = 0.95,
    regret: float = TOLERANCE,
    width: float = WIDTH,
) -> Decision:
    """Look at the samples of three prompts or more: is the answer known?

    It is where the recommended size costs at most `regret` more than the best, or where the
    interval of log(G*-1) has this half-width at most.
    """
    samples = Samples.of(prompts)
    population = Population(samples)
    choice = choose_by_sequence(population, level, regret)
    found = log_width(population, level)
    stop: Literal["regret", "width"] | None = None
    if population.effective_prompts >= LEAST_CARRIERS:
        stop = "regret" if choice.regret <= regret else "width" if found <= width else None
    wanted = completions_wanted(samples, found, width)
    best = population.best_group_size(level)
    return Decision(stop, choice, found, wanted, best)
