"""The ranking on the page: a row for each estimator."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.answers.ranking import Ranked, rank_estimators
from mse_lab.estimators import Estimator
from mse_lab.formatting import number, with_interval
from mse_lab.report.layout import Table, estimate_cell

# They know the value V or the baseline b* of each prompt.
_UNREAL = ("oracle", "best-constant")

# Their aim is another objective, so that distance to g is no verdict on them.
_OTHER_OBJECTIVES = ("maxrl", "pass-at-k")

_FIGURES = {"scale_free_mse": "Scale-free MSE", "slope": "Slope", "cosine": "Cosine",
            "bias2": "Bias²", "variance": "Variance", "mse": "Raw MSE"}  # fmt: skip

# What an unbiased estimator has exactly.
_EXACT = {"slope": "1", "cosine": "1", "bias2": "0"}

_NORMS_ONLY = (
    "Norms only: the estimators that have a law are ranked by their laws at the run's "
    "moments, because there are no replicates."
)
_NO_RANKING = (
    "‖g‖² of the aggregate is not measurably positive, so there is no scale-free MSE and "
    "nothing is ranked. More completions in the reference would help."
)


def _marked(estimator: Estimator) -> str:
    unreal = "*" if estimator.name in _UNREAL else ""
    return f"{estimator.name}{unreal}{'' if estimator.group_local else '†'}"


def _cells(row: Ranked, level: float) -> list[str]:
    cells = {name: estimate_cell(row.curve.interval(name, level)) for name in _FIGURES}
    # A cosine near one is less by no more than the slopes' noise, which no interval holds.
    cells["cosine"] = number(float(row.curve.point.cosine))
    cells |= _EXACT if row.estimator.unbiased else {}
    return [_marked(row.estimator), estimate_cell(row.ratio), *cells.values()]


def _leader(rows: Sequence[Ranked]) -> str:
    usable = [
        row
        for row in rows
        if row.estimator.name.partition("(")[0] not in (*_UNREAL, *_OTHER_OBJECTIVES)
    ]
    if not usable:
        return ""
    first, *_ = usable
    return (
        f"Of those for the mean reward that training could use, {first.estimator.name} "
        f"comes first at {with_interval(first.ratio)} of the oracle's scale-free MSE."
    )


def _stand(source: FinishedRun, size: int) -> dict[str, Any]:
    ranked, left_out = rank_estimators(source, size)
    known = [row for row in ranked if not math.isnan(row.ratio.low)]
    warnings = [_NORMS_ONLY] if source.law_only else []
    if not known:
        warnings.append(_NO_RANKING)
    heads = ["Estimator", "Ratio to the oracle", *_FIGURES.values()]
    return {
        "source": source,
        "title": f"{source.name}, G = {size}",
        "warnings": warnings,
        "leader": _leader(known),
        "ranked": Table(heads, [_cells(row, source.level) for row in ranked]),
        "left_out": left_out,
    }


def show_ranking(sources: Sequence[FinishedRun], sizes: Iterable[int]) -> dict[str, Any]:
    """Rank every run's estimators, each at a size: `standings`."""
    return {"standings": [_stand(*pair) for pair in zip(sources, sizes, strict=True)]}
