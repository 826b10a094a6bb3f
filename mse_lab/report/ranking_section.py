"""The ranking on the page: a dot and a row for each estimator."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from matplotlib.axes import Axes

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.answers.ranking import Ranked, Ranking, rank_estimators
from mse_lab.estimators import Estimator
from mse_lab.formatting import number, with_interval
from mse_lab.report.drawing import STYLES
from mse_lab.report.layout import Image, Table, draw_panel, estimate_cell

# They know the value V or the baseline b* of each prompt.
_UNREAL = ("oracle", "best-constant")

_FIGURES = {
    "scale_free_mse": "Scale-free MSE",
    "slope": "Slope",
    "cosine": "Cosine",
    "bias2": "Bias²",
    "variance": "Variance",
    "mse": "Raw MSE",
}

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


def _figures(row: Ranked, level: float) -> list[str]:
    cells = {name: estimate_cell(row.curve.interval(name, level)) for name in _FIGURES}
    # A cosine near one is less by no more than the slopes' noise, which no interval holds.
    cells["cosine"] = number(float(row.curve.point.cosine))
    return list((cells | _EXACT if row.estimator.unbiased else cells).values())


def _draw(axes: Axes, rows: Sequence[Ranked]) -> None:
    for place, row in enumerate(reversed(rows)):
        value, low, high = row.ratio
        name = row.estimator.name
        colour = STYLES[name].colour if name in STYLES else "0.35"
        axes.plot([low, high], [place, place], color=colour, linewidth=1.4)
        face = colour if row.estimator.unbiased else "white"
        axes.plot(value, place, "o", color=colour, ms=5, markerfacecolor=face)
    axes.axvline(1, color="0.45", linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(rows)), [_marked(row.estimator) for row in reversed(rows)])
    axes.grid(axis="y", visible=False)
    axes.set(ylim=(-0.7, len(rows) - 0.3), xlabel="Scale-free MSE / the oracle's")


def _image(title: str, rows: Sequence[Ranked]) -> Image:
    ratios = "; ".join(f"{row.estimator.name} {with_interval(row.ratio)}" for row in rows)
    alt = f"Scale-free MSE over the oracle's, {title}, best first: {ratios}"
    return draw_panel(partial(_draw, rows=rows), alt, (3.7, 0.75 + 0.215 * len(rows)))


def _leader(rows: Sequence[Ranked]) -> str:
    usable = [row for row in rows if row.estimator.name not in _UNREAL]
    if not usable:
        return ""
    return (
        f"Of those that training could use, {usable[0].estimator.name} comes first at "
        f"{with_interval(usable[0].ratio)} of the oracle's scale-free MSE."
    )


def _ranked_table(ranking: Ranking, level: float) -> Table:
    rows = [
        [
            _marked(row.estimator),
            estimate_cell(row.ratio),
            *_figures(row, level),
        ]
        for row in ranking.ranked
    ]
    return Table(["Estimator", "Ratio to the oracle", *_FIGURES.values()], rows)


def _unranked_table(ranking: Ranking, prompts: int) -> Table:
    rows = [
        [row.estimator.name, number(row.ratio), f"{row.prompts} of {prompts}"]
        for row in ranking.unranked
    ]
    return Table(["Estimator", "Median ratio to the oracle", "Prompts"], rows)


def _stand(source: FinishedRun, size: int) -> dict[str, Any]:
    ranking = rank_estimators(source, size)
    known = [row for row in ranking.ranked if not math.isnan(row.ratio.low)]
    title = f"{source.name}, G = {ranking.group_size}"
    return {
        "source": source,
        "title": title,
        "warnings": [_NORMS_ONLY] * source.law_only + [_NO_RANKING] * (not known),
        "leader": _leader(known),
        "image": _image(title, known) if known else None,
        "caption": f"{title}: ratio to the oracle with its {100 * source.level:.0f}% "
        "interval; left of the line is better. Open: biased.",
        "ranked": _ranked_table(ranking, source.level),
        "unranked": _unranked_table(ranking, source.pools.prompts),
        "left_out": ranking.left_out,
    }


def show_ranking(sources: Sequence[FinishedRun], sizes: Iterable[int]) -> dict[str, Any]:
    """Rank every run's estimators, each at a size: `standings`."""
    return {"standings": [_stand(*pair) for pair in zip(sources, sizes, strict=True)]}
