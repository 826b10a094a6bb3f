"""Ranking: every built-in estimator on the run's own completions, by scale-free MSE.

Nothing is measured again: all estimators see the groups that the run was made of. Where it
has norms only, laws stand for the replicates. The scale-free MSE of
`mse_lab.mse.decomposition` does not depend on a factor that a learning rate would absorb,
and is set in proportion to the oracle's, paired.
"""

import math
from typing import NamedTuple

import numpy as np

from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.errors import InputError
from mse_lab.estimators import Estimator, find_estimator
from mse_lab.estimators.registry import ESTIMATORS
from mse_lab.mse.curves import Curve, measure_curves
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.replicates import Key, measure_errors

# The size where none is recommended: large enough for all, small enough for training.
MIDDLE = 16

# Why an estimator is left out.
NO_LAW = "biased, and no law gives the bias of the aggregate"
NOTHING = "no law, and there are no replicates"
SMALL_REFERENCE = "its mean is estimated with a bias unless pool.reference is"


class Ranked(NamedTuple):
    """An estimator with figures for the aggregate.

    `ratio` is its scale-free MSE over the oracle's, paired.
    """

    estimator: Estimator
    curve: Curve
    ratio: Estimate


def nearest_size(run: MeasuredRun, wanted: float = MIDDLE) -> int:
    """Choose the measured size nearest to the wanted one, below the largest if possible.

    Figures of single prompts need two groups in a block of the largest size.
    """
    below = [size for size in run.sizes if size < run.pools.largest_group]
    return min(below or run.sizes, key=lambda size: abs(math.log2(size / wanted)))


def _obstacle(estimator: Estimator, run: MeasuredRun, size: int) -> str:
    if estimator.smallest_group > size:
        return f"needs groups of {estimator.smallest_group} or more"
    if estimator.smallest_batch > run.pools.prompts:
        return f"needs {estimator.smallest_batch} prompts or more"
    return "needs rewards 0 and 1" if estimator.binary and not run.binary else ""


def _applicable(run: MeasuredRun, size: int) -> tuple[list[Estimator], list[str]]:
    applicable, left_out, built_in = [], [], list(ESTIMATORS)
    for entry in [*built_in, *(entry for entry in run.entries if entry not in built_in)]:
        try:
            estimator = find_estimator(entry)
        except InputError as error:
            left_out.append(f"{entry}: {error}")
            continue
        if reason := _obstacle(estimator, run, size):
            left_out.append(f"{estimator.name}: {reason}")
        else:
            applicable.append(estimator)
    return applicable, left_out


def rank_estimators(run: MeasuredRun, size: int) -> tuple[list[Ranked], list[str]]:
    """Rank all estimators that apply at a group size of the run; say what is left out."""
    estimators, left_out = _applicable(run, size)
    errors = measure_errors(run.pools, estimators, [size])
    points = measure_curves(run.curves, estimators, errors)
    curves = []
    for estimator in estimators:
        key = Key(estimator.name, size)
        measured, law = points[key]
        if not run.curves.knows_mean(estimator, size):
            left_out.append(f"{key.estimator}: {SMALL_REFERENCE} {size + 3} or more")
        elif curve := measured or law:
            curves.append((estimator, curve))
        else:
            left_out.append(f"{estimator.name}: {NO_LAW if errors[key].size else NOTHING}")
    [oracle] = [curve for estimator, curve in curves if estimator.name == "oracle"]
    base = oracle.statistic("scale_free_mse")
    rows = []
    for estimator, curve in curves:
        ratio = curve.statistic("scale_free_mse") / base
        rows.append(Ranked(estimator, curve, ratio.interval(run.level, positive=True)))
    # Those whose figure is unknown come last.
    rows.sort(key=lambda row: np.nan_to_num(row.curve.point.scale_free_mse, nan=math.inf))
    return rows, left_out
