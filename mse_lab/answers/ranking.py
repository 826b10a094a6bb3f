"""Ranking: every built-in estimator on the run's own completions, by scale-free MSE.

Nothing is measured again: all estimators see the groups that the run was made of. Where it
has norms only, laws stand for the replicates. The scale-free MSE of
`mse_lab.mse.decomposition` does not depend on a factor that a learning rate would absorb,
and is set in proportion to the oracle's, paired.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mse_lab.answers.judgement import holm
from mse_lab.answers.source import Source
from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.estimators import Estimator, find_estimator
from mse_lab.estimators.registry import ESTIMATORS
from mse_lab.mse.curves import Curve, measure_curves
from mse_lab.mse.intervals import UNKNOWN, Estimate, Statistic
from mse_lab.mse.replicates import Key, measure_errors
from mse_lab.probe.streams import stream
from mse_lab.results.tables import by_prompt_table

# Large enough for every estimator, small enough to be used in training.
MIDDLE = 16

ORACLE = "oracle"


class Ranked(NamedTuple):
    """An estimator that has figures for the aggregate.

    Attributes:
        estimator: The estimator.
        curve: Its figures.
        ratio: Its scale-free MSE over the oracle's, paired.
        rank: Its place, 1 for the least; the interval by paired tests, Holm-corrected.
    """

    estimator: Estimator
    curve: Curve
    ratio: Estimate
    rank: Estimate


class Unranked(NamedTuple):
    """A biased estimator whose aggregate has no cheap bias.

    Attributes:
        estimator: The estimator.
        ratio: Median over prompts of its scale-free MSE over the oracle's; the interval is
            over prompts.
        prompts: Prompts for which both are known.
    """

    estimator: Estimator
    ratio: Estimate
    prompts: int


@dataclass(frozen=True)
class Ranking:
    """The estimators of one run.

    Attributes:
        group_size: G.
        ranked: From the least scale-free MSE to the largest.
        unranked: Those without a figure for the aggregate.
        left_out: Those that do not apply, with the reason.
        share_without: Share of the draws in which the aggregate's ||g||^2 is not positive,
            so that nothing is ranked there.
    """

    group_size: int
    ranked: tuple[Ranked, ...]
    unranked: tuple[Unranked, ...]
    left_out: tuple[str, ...]
    share_without: float


def middle_size(source: Source) -> int:
    """Choose the group size nearest to 16 below the largest, where there is one.

    Figures of single prompts need two groups in a block of the largest size.
    """
    sizes = source.group_sizes
    below = [size for size in sizes if size < source.pools.largest_group]
    return min(below or sizes, key=lambda size: abs(math.log2(size / MIDDLE)))


def _own(source: Source) -> Iterator[tuple[str, Estimator | None, str]]:
    """Yield the built-in estimators, then the probe's own variants: name, it, trouble."""
    for name, estimator in ESTIMATORS.items():
        yield name, estimator, ""
    for entry in source.probe.estimators:
        if isinstance(entry, str) and entry in ESTIMATORS:
            continue
        try:
            estimator = find_estimator(entry)
            yield estimator.name, estimator, ""
        except InputError as error:
            yield str(entry), None, str(error)


def _obstacle(estimator: Estimator, source: Source, size: int) -> str:
    """Say why an estimator does not apply; empty where it does."""
    if estimator.smallest_group > size:
        return f"needs groups of {estimator.smallest_group} or more"
    if estimator.smallest_batch > source.pools.prompts:
        return f"needs {estimator.smallest_batch} prompts or more"
    return "needs rewards 0 and 1" if estimator.binary and not source.curves.binary else ""


def _applicable(source: Source, size: int) -> tuple[list[Estimator], list[str]]:
    found, left_out = [], []
    for name, estimator, trouble in _own(source):
        reason = trouble if estimator is None else _obstacle(estimator, source, size)
        if estimator is None or reason:
            left_out.append(f"{name}: {reason}")
        else:
            found.append(estimator)
    return found, left_out


def _place(own: Statistic, others: Sequence[Statistic], alpha: float) -> Estimate:
    """Rank a number among others: behind those shown to be less than it."""
    less = sum(one.value < own.value for one in others)
    p_values = holm([own.exceeding(one).p_not_zero() for one in others])
    shown = [
        one.value < own.value for one, p in zip(others, p_values, strict=True) if p < alpha
    ]
    return Estimate(1 + less, 1 + sum(shown), 1 + len(others) - len(shown) + sum(shown))


def _rank(
    found: list[tuple[Estimator, Curve]], source: Source
) -> tuple[list[Ranked], float]:
    """Rank by the scale-free MSE; paired tests give each place its interval."""
    numbers = [curve.statistic("scale_free_mse") for _, curve in found]
    oracle = [estimator.name for estimator, _ in found].index(ORACLE)
    rows = []
    for one, (estimator, curve) in enumerate(found):
        own = numbers[one]
        ratio = (own / numbers[oracle]).interval(source.level, positive=True)
        known = math.isfinite(own.value)
        others = [other for other in numbers if other is not own]
        place = _place(own, others, 1 - source.level) if known else UNKNOWN
        rows.append(Ranked(estimator, curve, ratio, place))
    rows.sort(key=lambda row: row.rank.value)
    unknown = np.isnan(found[oracle][1].noise.scale_free_mse)
    return rows, float(np.mean(unknown))


def _median(values_P: Floats, source: Source, name: str) -> Estimate:
    """Median over prompts; its interval resamples prompts."""
    if not values_P.size:
        return Estimate(math.nan, math.nan, math.nan)
    rng = stream(source.probe.seed, "report", name)
    shape = (source.probe.interval.resamples, len(values_P))
    draws = np.median(values_P[rng.integers(len(values_P), size=shape)], axis=1)
    tail = (1 - source.level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Estimate(float(np.median(values_P)), float(low), float(high))


def _unranked(
    estimators: list[Estimator], source: Source, errors: dict[Key, Floats]
) -> tuple[Unranked, ...]:
    """Give the estimators without aggregate figures those of the single prompts."""
    if not estimators:
        return ()
    both = [ESTIMATORS[ORACLE], *estimators]
    table = by_prompt_table(source.prompts["prompt"], source.curves, both, errors)
    figures = {
        str(name): rows["scale_free_mse"].to_numpy()
        for name, rows in table.groupby("estimator", sort=False)
    }
    base_P = figures[ORACLE]
    rows = []
    for estimator in estimators:
        own_P = figures[estimator.name]
        known = np.isfinite(own_P) & np.isfinite(base_P) & (base_P > 0)
        median = _median(own_P[known] / base_P[known], source, estimator.name)
        rows.append(Unranked(estimator, median, int(known.sum())))
    return tuple(sorted(rows, key=lambda row: row.ratio.value))


def rank_estimators(source: Source) -> Ranking:
    """Evaluate all estimators that apply at the run's middle group size, and rank them."""
    size = middle_size(source)
    estimators, left_out = _applicable(source, size)
    errors = measure_errors(source.pools, estimators, [size])
    found = measure_curves(source.curves, estimators, errors)
    curves = [
        (one, found[Key(one.name, size)][1 if source.law_only else 0]) for one in estimators
    ]
    with_figures = [(one, curve) for one, curve in curves if curve is not None]
    ranked, share_without = _rank(with_figures, source)
    without = [one for one, curve in curves if curve is None]
    if source.law_only:
        left_out += [f"{one.name}: no law, and there are no replicates" for one in without]
        without = []
    return Ranking(
        group_size=size,
        ranked=tuple(ranked),
        unranked=_unranked(without, source, errors),
        left_out=tuple(left_out),
        share_without=share_without,
    )
