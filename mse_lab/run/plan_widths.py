"""Interval widths of a run, predicted from its first prompts.

The first m prompts are analysed as the run will analyse all P. Relative to its square, a
number such as the aggregate's MSE then has a variance by the groups and one by the finite
reference (`mse/intervals.py`). Were all prompts like these, P prompts with r times the
replicates and n times the reference would have

    V = (m / P) (V_groups / r + V_reference / n),

and D degrees of freedom become (D + 2) P / m - 2. A bias does not shrink with P: with one,
intervals are narrower than predicted.

The variation among prompts is estimated from m of them only. With a prompt's v_x of the
groups' variance and e_x of the error, the log half-width log(sum v) / 2 - log(sum e)
moves by

    i_x = v_x / (2 sum v) - e_x / sum e,

so that with s^2 = m / (m - 1) sum (i_x - mean)^2 and Student's t of m - 1 degrees they are
right within a factor of exp(t s sqrt(1 - m/P)).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from mse_lab.mse.curves import Curve
from mse_lab.mse.intervals import Statistic, spread_of_means
from mse_lab.mse.pools import Pools
from mse_lab.mse.replicates import Key
from mse_lab.results.analysis import Analysis

# A suggestion raises a pool by no more than this factor.
MOST = 64

# Prompts that are enough to estimate how much prompts vary.
FEW = 3


class Point(NamedTuple):
    """A curve's point on the first prompts.

    Its variance by the groups and by the reference, relative to the squared value, their
    degrees of freedom, and s of the log half-width, which is NaN of one prompt.
    """

    by_groups: float
    by_reference: float
    degrees: float
    roughness: float

    def half_width(
        self, level: float, prompts: float, replicate: float = 1.0, reference: float = 1.0
    ) -> float:
        """Predict an interval's half-width, relative to the value; sizes are factors.

        >>> round(Point(0.04, 0.01, 1e9, 0.0).half_width(0.95, 2, 4, 2), 4)  # 1.96 sqrt V
        0.1697
        """
        degrees = max((self.degrees + 2) * prompts - 2, 1.0)
        variance = self.by_groups / replicate + self.by_reference / reference
        return float(stats.t.ppf((1 + level) / 2, degrees)) * math.sqrt(variance / prompts)

    def replicates_for(
        self, wanted: float, level: float, prompts: float, reference: float
    ) -> float:
        """Give the factor of replicates for a half-width; infinite if none is enough."""
        least = self.half_width(level, prompts, math.inf, reference) ** 2
        more = self.half_width(level, prompts, 1.0, reference) ** 2 - least
        return more / (wanted**2 - least) if wanted**2 > least else math.inf


@dataclass(frozen=True)
class Widths:
    """Half-widths of a run's intervals of a level, relative; NaN where unknown.

    Attributes:
        factor: They are right within this factor; NaN with too few prompts.
        mse: Estimator -> half-width of its MSE at each group size; empty where products
            between completions are not known.
        law: Estimator -> half-width of its law, the widest of any group size.
        widest: The widest known of an MSE, with its estimator and group size.
        remedies: If the widest exceeds the one wanted, settings that would reach it.
    """

    level: float
    factor: float
    group_sizes: Sequence[int]
    mse: Mapping[str, list[float]]
    law: Mapping[str, float]
    widest: tuple[float, str, int]
    wanted: float
    remedies: Sequence[str]


def roughness(statistic: Statistic) -> float:
    """Estimate s from the variation among prompts; NaN for one prompt."""
    (groups_PR,) = statistic.groups.values()
    error_P, count = groups_PR.mean(-1), len(groups_PR)
    variance_P = np.array([spread_of_means(one[None]).variance for one in groups_PR])
    if count < 2 or variance_P.sum() <= 0 or error_P.sum() <= 0:
        return math.nan
    influence_P = variance_P / variance_P.sum() / 2 - error_P / error_P.sum()
    return float(np.sqrt(count * influence_P.var(ddof=1)))


def find_point(curve: Curve) -> Point:
    """Take a curve's point apart; NaN where its value is not positive."""
    whole = curve.statistic()
    square = whole.value**2 if whole.value > 0 else math.nan
    groups = Statistic(whole.value, whole.groups, {}).spread.variance / square
    reference = Statistic(whole.value, {}, whole.reference).spread.variance / square
    return Point(groups, reference, whole.degrees, roughness(whole))


def _larger_pools(
    points: Collection[Point], pools: Pools, level: float, wanted: float, growth: float
) -> list[str]:
    """Give pools that reach a half-width, with the reference doubled only if needed."""
    for larger in (2**power for power in range(MOST.bit_length())):
        factors = [one.replicates_for(wanted, level, growth, larger) for one in points]
        if max(factors) <= MOST:
            blocks = math.ceil(max(1.0, *factors) * pools.blocks)
            remedy = f"pool.replicate={blocks * pools.largest_group}"
            if larger > 1:
                reference = 2 * larger * pools.reference_half
                remedy = f"pool.reference={reference} with {remedy}"
            return [remedy]
    return []


def _factor(points: Sequence[Point], measured: int, prompts: int) -> float:
    """Give the factor within which half-widths from some prompts are right, 95%."""
    squares = [point.roughness**2 for point in points if math.isfinite(point.roughness)]
    if measured < FEW or not squares:
        return math.nan
    reach = float(stats.t.ppf(0.975, measured - 1)) * math.sqrt(np.mean(squares))
    return math.exp(reach * math.sqrt(1 - measured / prompts))


def _by_estimator(
    points: Mapping[Key, Point], sizes: Sequence[int], level: float, growth: float
) -> dict[str, list[float]]:
    """Half-widths at each group size; NaN where there is no point."""
    found = {key: point.half_width(level, growth) for key, point in points.items()}
    names = dict.fromkeys(key.estimator for key in points)
    return {
        name: [found.get(Key(name, size), math.nan) for size in sizes] for name in names
    }


def expect_widths(analysis: Analysis, prompts: int, wanted: float) -> Widths:
    """Predict the intervals of a run of `prompts` from an analysis of the first."""
    pools, level, sizes = analysis.pools, analysis.level, analysis.group_sizes
    growth = prompts / pools.prompts
    measured, laws = (
        {key: find_point(curve) for key, pair in analysis.points.items()
         if (curve := pair[side])}
        for side in (0, 1)
    )  # fmt: skip
    known = {key: one for key, one in measured.items() if math.isfinite(one.by_groups)}
    widest = max(
        ((point.half_width(level, growth), *key) for key, point in known.items()),
        default=(0.0, "", 0),
    )
    remedies = []
    if widest[0] > wanted:
        remedies = _larger_pools(known.values(), pools, level, wanted, growth)
        remedies.append(f"{math.ceil(prompts * (widest[0] / wanted) ** 2)} prompts")
    by_law = _by_estimator(laws, sizes, level, growth)
    return Widths(
        level=level,
        factor=_factor([*measured.values(), *laws.values()], pools.prompts, prompts),
        group_sizes=sizes,
        mse=_by_estimator(measured, sizes, level, growth),
        law={name: max(widths) for name, widths in by_law.items()},
        widest=widest,
        wanted=wanted,
        remedies=remedies,
    )
