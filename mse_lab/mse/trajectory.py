"""A trajectory: one distribution of prompts, its gradients at checkpoint after checkpoint.

A prompt is left out of all checkpoints at once (the jackknife of `budget.py`, jointly), so
that the contributions of a prompt to all of them are paired, and with them the noise of
completions that are drawn with the same uniforms. Resampling prompts with replacement would
not do: c1 needs pairs of different prompts.

Whether a figure differs between T checkpoints at all: with d its differences to the first,
S their covariance by the joint jackknife, q the rank of S and n the degrees of freedom,

    Q = d' S^- d,    Q (n - q + 1) / (n q)  is F with q and n - q + 1 degrees,

Cochran's Q (1954) for estimates that are not independent, with the tail of Hotelling's
T^2 (1931), since S is estimated; where S is known it is chi-square with q.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from mse_lab.arrays import Floats, divide
from mse_lab.mse.budget import Constants, Population, mse_times_budget
from mse_lab.mse.intervals import Estimate, Statistic, falling

LEAST, LARGEST = 2, 1024  # The smallest and the largest best group size.
_RANK = 1e-9  # Singular values of S below this share of the largest count as zero.


class Movement(NamedTuple):
    """The test whether a figure differs between checkpoints."""

    statistic: float  # Cochran's Q.
    differences: int  # q, the rank of S.
    p_value: float


def measure_movement(statistics: Sequence[Statistic], most_degrees: float) -> Movement:
    """Test whether a figure of the same prompts is one and the same at all checkpoints.

    Its degrees of freedom are at most `most_degrees`, the prompts that carry the figure.
    The p-value is NaN where a figure is unknown, or the prompts are too few.
    """
    value_T = np.array([statistic.value for statistic in statistics])
    apart_TP = np.stack([statistic.groups["prompts"][0] for statistic in statistics])
    prompts = apart_TP.shape[1]
    degrees = min(prompts - 1, most_degrees)
    if not (np.isfinite(value_T).all() and np.isfinite(apart_TP).all()):
        return Movement(np.nan, len(value_T) - 1, np.nan)
    difference, moved = value_T[1:] - value_T[0], apart_TP[1:] - apart_TP[0]
    covariance = np.atleast_2d(np.cov(moved)) / prompts
    rank = int(np.linalg.matrix_rank(covariance, rtol=_RANK, hermitian=True))
    inverse = np.linalg.pinv(covariance, rtol=_RANK, hermitian=True)
    q = float(difference @ inverse @ difference)
    rest = degrees - rank + 1
    if not rank or rest <= 0:
        return Movement(q, rank, np.nan if rank else 1.0)
    return Movement(q, rank, float(stats.f.sf(q * rest / degrees / rank, rank, rest)))


@dataclass(frozen=True)
class Trajectory(Population):
    """The population at the first checkpoint, and at the others of the same prompts.

    A figure of a trajectory takes the constants of every checkpoint, in their order.
    """

    others: tuple[Population, ...] = ()

    @classmethod
    def of(cls, populations: Sequence[Population]) -> "Trajectory":
        """Join the populations of checkpoints, in their order."""
        first, *later = populations
        return cls(first.pools, first.bootstrap, others=tuple(later))

    def _evaluate(self, figure: Callable[..., Floats], others: Sequence[Any]) -> Floats:
        later = [population.samples for population in self.others]
        return super()._evaluate(figure, [*later, *others])

    @cached_property
    def effective_prompts(self) -> float:
        """How many prompts carry c1 and c3, at the checkpoint where they are fewest."""
        first = Population(self.pools)
        return min(population.effective_prompts for population in (first, *self.others))

    def best_group_size(self, level: float) -> Estimate:
        """Estimate the best G for the whole trajectory, 1 + sqrt(sum c3 / sum c1)."""
        positive = all(other.knows_c1(level) for other in self.others)
        positive = positive and self.knows_c1(level)
        estimate = self.estimate_positive if positive else self.estimate
        ratio = estimate(lambda *each: best_ratio(each), level)
        return Estimate(*(1 + end for end in falling(ratio, -0.5)))

    def cost(self, group_size: int, level: float) -> Estimate:
        """Completions at one group size for all checkpoints, over those at the best one."""

        def cost(*each: Constants) -> Floats:
            return divide(_total(each, group_size), _least(each))

        return self.estimate_positive(cost, level)

    def saved_by_switching(self, level: float) -> Estimate:
        """Share of completions that the best G of each checkpoint saves, over one best G.

        It is quadratic in how far G* moves, so the least values of noisy curves make it too
        large by a bias b. The jackknife subtracts b; the result may be negative. Where G*
        does not move, the jackknife shows no other spread, and the variance of a sum of
        squares of mean b is at most 2 b^2.
        """

        def saved(*each: Constants) -> Floats:
            apart = np.sum([_least([constants]) for constants in each], axis=0)
            return 1 - divide(apart, _least(each), otherwise=1.0)

        statistic = self.statistic(saved)
        bias = float(statistic.groups["prompts"].mean())
        # Two numbers of variance 2 b^2.
        beside = {"curvature": np.array([-bias, bias])}
        unbiased = Statistic(statistic.value + bias, statistic.groups, beside)
        return unbiased.interval(level, most_degrees=self.effective_prompts)


def best_ratio(each: Sequence[Constants]) -> Floats:
    """(G* - 1)^-2: sum c1 / sum c3, finite whatever c1."""
    c1, c3 = (
        np.sum([getattr(constants, name) for constants in each], axis=0)
        for name in ("c1", "c3")
    )
    return divide(c1, c3)


def _total(each: Sequence[Constants], size: Floats | float) -> Floats:
    return np.sum([mse_times_budget("grpo", constants, size) for constants in each], axis=0)


def _least(each: Sequence[Constants]) -> Floats:
    """The least total cost; exact, since the jackknife would take a grid for noise."""
    c1 = np.maximum(np.sum([constants.nonnegative_c1 for constants in each], axis=0), 0.0)
    c3 = np.sum([constants.c3 for constants in each], axis=0)
    no_bound = np.where(c3 > 0, np.inf, 0.0)
    ratio = np.maximum(divide(c3, c1, otherwise=no_bound), 0.0)
    return _total(each, np.clip(1 + np.sqrt(ratio), LEAST, LARGEST))
