"""The ranking on the page: a dot and a row for each estimator."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.answers.ranking import ORACLE, Ranked, Ranking, rank_estimators
from mse_lab.estimators import Estimator
from mse_lab.formatting import number, power_of_ten, share, typeset, with_interval
from mse_lab.mse.intervals import Estimate
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

# They are no squares of gradients, so no common power of ten is taken out of them.
_PURE = ("slope", "cosine")


# A slope beyond this factor is explained.
_ODD = 3


def _marked(estimator: Estimator) -> str:
    """Name an estimator, with the marks of the legend."""
    unreal = "*" if estimator.name in _UNREAL else ""
    return f"{estimator.name}{unreal}{'' if estimator.group_local else '†'}"


def _figures(row: Ranked, level: float, power: int) -> list[str]:
    """Write a row's figures in units of the power of ten that the columns' heads name.

    A cosine near one is less by no more than the slopes' noise, which no interval holds.
    """
    figures = {}
    for name in _FIGURES:
        unit = 1.0 if name in _PURE else 10.0**power
        value, low, high = row.curve.interval(name, level)
        figures[name] = estimate_cell((value / unit, low / unit, high / unit))
    figures["cosine"] = number(float(row.curve.point.cosine))
    return list((figures | _EXACT if row.estimator.unbiased else figures).values())


def _rank_cell(rank: Estimate) -> str:
    """Write a rank above the whole numbers around its interval."""
    if math.isnan(rank.low):
        return number(rank.value)
    ends = f"({math.floor(rank.low)} to {math.ceil(rank.high)})"
    return Markup("{:.0f}<small>{}</small>").format(rank.value, ends)


def _draw(axes: Axes, rows: Sequence[Ranked]) -> None:
    """A dot with its interval for each estimator, the best on top."""
    for place, row in enumerate(reversed(rows)):
        value, low, high = row.ratio
        name = row.estimator.name
        colour = STYLES[name].colour if name in STYLES else "0.35"
        axes.plot([low, high], [place, place], color=colour, linewidth=1.4)
        face = colour if row.estimator.unbiased else "white"
        axes.plot(value, place, "o", color=colour, ms=5, markerfacecolor=face)
    axes.axvline(1, color="0.45", linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(rows)), [_marked(row.estimator) for row in reversed(rows)])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set(ylim=(-0.7, len(rows) - 0.3), xlabel="Scale-free MSE / the oracle's")


def _image(source: FinishedRun, ranking: Ranking) -> Image | None:
    rows = [row for row in ranking.ranked if not math.isnan(row.ratio.low)]
    if not rows:
        return None
    ratios = "; ".join(f"{row.estimator.name} {with_interval(row.ratio)}" for row in rows)
    alt = f"Scale-free MSE over the oracle's, {source.name}, best first: {ratios}"
    size = (3.7, 0.75 + 0.215 * len(rows))
    return draw_panel(partial(_draw, rows=rows), alt, size)


def _leaders(ranking: Ranking) -> str:
    """Say in a sentence which usable estimators are best and what the oracle costs."""
    usable = [row for row in ranking.ranked if row.estimator.name not in _UNREAL]
    if not usable or math.isnan(usable[0].ratio.low):
        return ""
    best, *others = usable
    last = math.ceil(best.rank.high)
    tied = ", ".join(row.estimator.name for row in others if row.rank.low <= last)
    also = f", not significantly different from {tied}" if tied else ""
    return (
        f"Of those that training could use, {best.estimator.name} comes first at "
        f"{with_interval(best.ratio)} of the oracle's scale-free MSE{also}."
    )


def _why(estimator: Estimator) -> str:
    """Say why an estimator has no aggregate figures."""
    if not estimator.group_local:
        return "biased; looks at other prompts"
    if not estimator.reward_only:
        return "biased; looks at more than rewards"
    return "biased; no law for rewards other than 0 and 1"


def _scales(ranking: Ranking) -> str:
    """Say of estimators on another scale than the gradient that their numbers are right."""
    pairs = ((row.estimator.name, row.curve.point.slope) for row in ranking.ranked)
    slopes = {name: float(slope) for name, slope in pairs if np.isfinite(slope)}
    odd = {name: one for name, one in slopes.items() if not 1 / _ODD < abs(one) < _ODD}
    if not odd:
        return ""
    lengths = " and ".join(f"{name} one {number(one)} times" for name, one in odd.items())
    return (
        "No error of this page: some estimators return a gradient on another scale, on "
        f"average {lengths} as long as the true one (slope). Bias², variance and raw MSE "
        "grow with its square. A learning rate tuned for the estimator takes it out, as "
        "does the scale-free MSE, which the order goes by."
    )


def _warnings(source: FinishedRun, ranking: Ranking, *, ranked: bool) -> list[str]:
    """Say what limits the ranking."""
    said = []
    if source.law_only:
        said.append(
            "Norms only: the estimators that have a law are ranked by their laws at the "
            "run's moments, because there are no replicates."
        )
    if not ranked:
        said.append(
            "‖g‖² of the aggregate is not measurably positive, so there is no scale-free "
            "MSE and nothing is ranked. More completions in the reference would help."
        )
    elif ranking.share_without:
        said.append(
            f"In {share(ranking.share_without)} of the draws ‖g‖² of the aggregate is not "
            "positive; the intervals leave those out and are too narrow."
        )
    return said


def _ranked_table(source: FinishedRun, ranking: Ranking, power: int) -> Table:
    unit = typeset(f", in 1e{power:+03d}") if power else ""
    units = [head if key in _PURE else head + unit for key, head in _FIGURES.items()]
    rows = [
        [
            _marked(row.estimator),
            _rank_cell(row.rank),
            estimate_cell(row.ratio),
            *_figures(row, source.level, power),
        ]
        for row in ranking.ranked
    ]
    return Table(["Estimator", "Rank", "Ratio to the oracle", *units], rows)


def _unranked_table(source: FinishedRun, ranking: Ranking) -> Table:
    name = Markup("{}<small>{}</small>")
    rows = [
        [
            name.format(row.estimator.name, _why(row.estimator)),
            number(row.ratio),
            f"{row.prompts} of {source.pools.prompts}",
        ]
        for row in ranking.unranked
    ]
    return Table(["Estimator", "Median ratio to the oracle", "Prompts"], rows)


def _stand(source: FinishedRun, size: int) -> dict[str, Any]:
    ranking = rank_estimators(source, size)
    oracle = next(row.curve for row in ranking.ranked if row.estimator.name == ORACLE)
    best = float(oracle.point.scale_free_mse)
    title = f"{source.name}, G = {ranking.group_size}"
    return {
        "source": source,
        "title": title,
        "warnings": _warnings(source, ranking, ranked=not math.isnan(best)),
        "leaders": _leaders(ranking),
        "scales": _scales(ranking),
        "image": _image(source, ranking),
        "caption": f"{title}: ratio to the oracle with its {100 * source.level:.0f}% "
        "interval; left of the line is better. Open: biased.",
        "ranked": _ranked_table(source, ranking, power_of_ten(best)),
        "unranked": _unranked_table(source, ranking),
        "left_out": ranking.left_out,
    }


def show_ranking(sources: Sequence[FinishedRun], sizes: Iterable[int]) -> dict[str, Any]:
    """Rank every run's estimators, each at a size: `standings`."""
    return {"standings": [_stand(*pair) for pair in zip(sources, sizes, strict=True)]}
