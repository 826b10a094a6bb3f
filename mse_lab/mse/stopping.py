"""Stopping: whether few completions of some prompts are enough for an answer.

From look to look the number of prompts grows by half. Two rules end the measurement, and
each keeps its level at the look at which it stops:

- **The decision.** The regret of the recommended size is bounded by an asymptotic
  confidence sequence, which holds at all looks together: with sd the standard deviation
  of a quantity over the first t prompts, its mean over all prompts differs from its mean
  over these by at most

      sd sqrt(2 (t r + 1) / (t^2 r) log(sqrt(t r + 1) / alpha))

  at every t in a share 1 - alpha of runs (Waudby-Smith et al., arXiv 2103.06476). The
  bounds of a ratio of costs E z / E a are the q between which the sequence of z - q a
  contains 0. A bound must also hold if `UNSEEN` more prompts are like the one that carries
  most of c1, for a rare kind of prompts may be among these too seldom.
- **Precision.** The interval of log(G*-1) is narrow enough. An interval by Student's t
  keeps its level when a run stops for its width (Chow and Robbins 1965).

Neither rule stops where too few prompts carry c1 and c3. Of kinds of prompts that are not
among these nothing is known, and what is told holds for the others (`rarest_seen`).
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
from mse_lab.mse.regret import COMPARED, TOLERANCE, Choice, recommend
from mse_lab.mse.samples import Blocks, Samples

Stopped = Literal["regret", "width", "budget", "exhausted"]

# Half-width of the interval of log(G*-1) that is narrow enough: a factor of 1.4.
WIDTH = 0.35

# Prompts that must carry c1 and c3: the spread of fewer says little of the next one.
LEAST_CARRIERS = 10

# Prompts of a kind that P prompts may lack, at 95%: (1 - 3/P)^P = 5%.
UNSEEN = 3

RATE = 0.18  # r of the sequence, with which it is narrowest near 50 prompts.


def sequence_radius(count: int, level: float) -> float:
    """Compute half the width of the confidence sequence of a mean, in standard deviations.

    >>> round(sequence_radius(54, 0.95), 3)
    0.413
    """
    scaled = count * RATE + 1
    return math.sqrt(
        2 * scaled / (count**2 * RATE) * math.log(math.sqrt(scaled) / (1 - level))
    )


def _contributions(population: Population) -> tuple[Floats, Floats]:
    """Return c1, c2 and c3, (3,), and each prompt's contributions to them, (P, 3)."""
    names = ("c1", "c2", "c3")
    statistics = [population.statistic(attrgetter(name)) for name in names]
    return (
        np.array([statistic.value for statistic in statistics]),
        np.stack([statistic.groups["prompts"][0] for statistic in statistics], axis=-1),
    )


def rarest_seen(prompts: int, *, looked: bool = True) -> int:
    """How rare a kind of prompts may be, 1 in n, of which P prompts tell the truth.

    A bound that is looked at until it is small holds for kinds of which at least one prompt
    is drawn in 95% of draws; a finished run's, by its own spread alone, for those of which
    twice as many are expected: `tests/README.md` has both.

    >>> rarest_seen(48), rarest_seen(2), rarest_seen(48, looked=False)
    (16, 1, 8)
    """
    return max(prompts // (UNSEEN if looked else 2 * UNSEEN), 1)


def ratio_bounds(values_K: Floats, apart_PK: Floats, radius: float) -> Floats:
    """Bound from above the ratio of each of K costs to each other one, (K, K).

    Args:
        values_K: The costs, means over P prompts.
        apart_PK: Each prompt's part of a cost, less the mean.
        radius: Half the width of the sequence of a mean, in standard deviations.

    Returns:
        The bound of values[i] / values[j] at [i, j]; infinite where there is none.
    """
    # The q with (E z - q E a)^2 <= reach^2 Var(z - q a) lie between two roots.
    spread = np.atleast_2d(np.cov(apart_PK.T))
    cross = np.outer(values_K, values_K) - radius**2 * spread
    diagonal = np.diag(cross)
    root = np.sqrt(np.maximum(cross**2 - np.outer(diagonal, diagonal), 0))
    bounded = (diagonal > 0) & (values_K > 0)
    return np.asarray(
        np.where(bounded, (cross + root) / np.where(bounded, diagonal, 1), math.inf)
    )


def _with_unseen(values: Floats, apart_P3: Floats) -> tuple[Floats, Floats]:
    """Add prompts like the one that carries most of c1."""
    heaviest = apart_P3[np.argmax(apart_P3[:, 0])]
    more = np.vstack([apart_P3, np.tile(heaviest, (UNSEEN, 1))])
    return values + more.mean(0), more - more.mean(0)


def sequence_bounds(
    population: Population, level: float, sizes: Sequence[int] = COMPARED
) -> dict[int, float]:
    """Bound the regret of group sizes; any two bounds hold at all looks together."""
    contributions = _contributions(population)
    costs = np.array([*dict.fromkeys((*COMPARED, *sizes))], dtype=float)
    factors_3K = np.stack([costs, np.ones_like(costs), 1 / (costs - 1)])
    ratios = []
    for values, apart_P3 in (contributions, _with_unseen(*contributions)):
        values_3 = np.maximum(values, [0.0, -math.inf, -math.inf])
        radius = sequence_radius(len(apart_P3), level)
        ratios.append(ratio_bounds(values_3 @ factors_3K, apart_P3 @ factors_3K, radius))
    worst = np.max(ratios, axis=(0, 2)) - 1
    bounds = dict(zip(costs.astype(int).tolist(), worst.tolist(), strict=True))
    return {size: bounds[size] for size in sizes}


def log_width(population: Population, level: float) -> float:
    """Half-width of the interval of log(G*-1); infinite where it has no end."""
    _, low, high = population.best_group_size(level)
    return math.log((high - 1) / (low - 1)) / 2 if 1 < low < high < math.inf else math.inf


class Decision(NamedTuple):
    """What a look says."""

    stop: Literal["regret", "width"] | None  # Why to stop; None to go on.
    choice: Choice  # The recommended size.
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
    """Decide by the samples of three prompts or more whether to stop.

    The measurement stops where the regret of the recommended size is at most `regret`, or
    where the interval of log(G*-1) has a half-width of at most `width`.
    """
    population = Population(Samples.of(prompts))
    choice = recommend(population, sequence_bounds(population, level), regret)
    stop: Literal["regret", "width"] | None = None
    if population.effective_prompts >= LEAST_CARRIERS:
        if choice.regret <= regret:
            stop = "regret"
        elif log_width(population, level) <= width:
            stop = "width"
    return Decision(stop, choice, population.best_group_size(level))
