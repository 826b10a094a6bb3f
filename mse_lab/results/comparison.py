"""Comparison: what any estimator's error is on a finished run, without its model.

Pools hold rewards, lengths, norms and inner products, so that every estimator is evaluated
on the groups that the run has drawn, and compared with GRPO-type and the oracle in pairs.
What is unbiased has a progress, too: by its law or, without one, by its own errors.

A user's own function counts as biased unless its entry says otherwise. Here its slope is
measured instead, by the products of the scores with the reference, and it is priced where
that may be one; a bias across g is not seen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from mse_lab.config.schema import EstimatorEntry
from mse_lab.errors import InputError
from mse_lab.estimators import Estimator, find_estimator, find_estimators
from mse_lab.formatting import with_interval
from mse_lab.mse.curves import disagreement, measure_curves, paired_ratio
from mse_lab.mse.intervals import UNKNOWN, Estimate, Statistic
from mse_lab.mse.loss import Aim, find_aims, progress
from mse_lab.mse.replicates import Key, form_groups, measure_errors
from mse_lab.results.analysis import NO_POINT, Analysis

BASES = ("grpo", "oracle")

# A slope is said to be off one at this p-value, and replicates off the law at that.
REFUTED, DISAGREES = 0.01, 1e-4

BIASED = "biased, and where its mean points is not known"
SCALED = "its error counts its weights' scale, progress (--completions-per-step N) does not"


class Compared(NamedTuple):
    """An estimator at a group size of a run; None where a number is not known."""

    run: str
    estimator: str
    group_size: int
    mse: float | None  # Of the mean over the run's prompts, by the replicates.
    law: float | None
    agrees: bool | None  # Whether the law agrees with the replicates.
    over_grpo: Estimate | None  # MSE over GRPO-type's.
    over_oracle: Estimate | None
    progress: Estimate | None  # Of a step of N completions, from 0 to 1.
    why: str  # Why there is no MSE, or why it says little; empty where it says all.


def _slope(run: Analysis, estimator: Estimator, size: int) -> Estimate:
    """Estimate <E g_hat, g> / ||g||^2, by how it differs from the oracle's, which is 1.

    Both on the same groups and against the same reference, so that replicates alone vary.
    """
    oracle, groups = find_estimator("oracle"), form_groups(run.pools, size)
    apart_PRG = estimator.weights(groups) - oracle.weights(groups)
    inner_PR = (apart_PRG * run.pools.products_PN.reshape(apart_PRG.shape)).mean(-1)
    norm2 = float(run.pools.reference_product_P.sum())
    if norm2 <= 0:
        return UNKNOWN
    apart = Statistic(float(inner_PR.mean(1).sum()), {"": inner_PR}, {})
    return Estimate(*(1 + end / norm2 for end in apart.interval(1 - REFUTED)))


def _progress(
    run: Analysis, entry: EstimatorEntry, one: Estimator, size: int, completions: int
) -> Estimate | None:
    aim = find_aims(run.table, entry, [size]).get(size)
    if aim is None and one.unbiased:
        errors = measure_errors(run.pools, [one], [size])
        aim = Aim.of_prompts(run.table, errors[Key(one.name, size)].mean(1), size)
    return aim and progress(run.table, aim, completions, run.level)


def _check(run: Analysis, sizes: Sequence[int]) -> None:
    if not run.pools.has_cross_products:
        raise InputError(
            f"{run.name}: its pools lack products of completions, without which only laws "
            "are known; measure it again where more memory is"
        )
    for size in sizes:
        if run.pools.largest_group % size:
            most = run.pools.largest_group
            raise InputError(f"--G {size}: no part of {run.name}'s groups of {most}")


def _tried(run: Analysis, one: Estimator, size: int) -> tuple[Estimator, str]:
    """Take a user's own as unbiased if its slope may be one; say why an MSE lacks."""
    if not one.code or one.unbiased:
        return one, BIASED
    slope = _slope(run, one, size)
    said = f"biased: its mean is {with_interval(slope)} times the gradient, along it"
    return replace(one, unbiased=not (slope.low > 1 or slope.high < 1)), said


def _compare_at(
    run: Analysis,
    entries: Sequence[EstimatorEntry],
    found: Sequence[Estimator],
    size: int,
    completions: int,
) -> Iterator[Compared]:
    tried = [_tried(run, one, size) for one in found]
    bases = [one for one in map(find_estimator, BASES) if size >= one.smallest_group]
    known = [*{one.name: one for one in (*bases, *(one for one, _ in tried))}.values()]
    points = measure_curves(run.curves, known, measure_errors(run.pools, known, [size]))
    known_at = completions and completions % size == 0  # Of whole groups.
    others = [points.get(Key(base, size), NO_POINT).measured for base in BASES]
    for entry, (one, why) in zip(entries, tried, strict=True):
        measured, law = points[Key(one.name, size)]
        over_grpo, over_oracle = (
            paired_ratio(measured, other, run.level) for other in others
        )
        yield Compared(
            run.name,
            one.name,
            size,
            None if measured is None else float(measured.point.mse),
            None if law is None else float(law.point.mse),
            disagreement(measured, law) > DISAGREES if measured and law else None,
            over_grpo,
            over_oracle,
            _progress(run, entry, one, size, completions) if known_at else None,
            ("" if one.unbiased else SCALED) if measured else why,
        )


def compare(
    run: Analysis,
    entries: Sequence[EstimatorEntry],
    sizes: Sequence[int] = (),
    completions: int | None = None,
) -> list[Compared]:
    """Price estimators on the groups of a run, each over GRPO-type and over the oracle.

    Args:
        run: A finished run, or pools.
        entries: The estimators, as in a probe.
        sizes: Group sizes; by default the run's.
        completions: N of a step, for the progress; without it there is none.

    Raises:
        InputError: An estimator does not exist or apply, or the pools do not tell.
    """
    sizes = list(dict.fromkeys(sizes or run.group_sizes))
    _check(run, sizes)
    found = find_estimators(entries, sizes, run.pools.prompts)
    return [
        row
        for size in sizes
        for row in _compare_at(run, entries, found, size, completions or 0)
    ]
