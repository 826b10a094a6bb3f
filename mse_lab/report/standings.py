"""Standings: the ranking as a section of the page, with a dot for each estimator."""

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.answers.ranking import ORACLE, Ranked, Ranking, Unranked, rank_estimators
from mse_lab.estimators import Estimator
from mse_lab.mse.curves import Curve
from mse_lab.mse.intervals import Estimate
from mse_lab.report.figure_4 import COLOURS
from mse_lab.report.markup import (
    Html,
    article,
    bullets,
    element,
    figure,
    join,
    paragraph,
    table,
)
from mse_lab.report.vector import inline_figure
from mse_lab.report.wording import cell, interval, number, power_of_ten, times

_GREY = "0.35"

# They know the value V or the baseline b* of each prompt.
_UNREAL = ("oracle", "best-constant")

_INTRODUCTION = (
    "Every built-in estimator, on the very groups of this run. A biased estimator cannot "
    "be judged by its raw MSE: multiply it by two and the MSE changes, while the "
    "direction, all that a tuned learning rate leaves, does not. So the order is by the "
    "scale-free MSE, the least MSE that any factor in front of the estimator can reach, "
    "and its ratio to the oracle's, which is paired: both see the same groups. "
    "Two estimators whose intervals of the rank overlap are not "
    "told apart by this run."
)

_LAW_ONLY = (
    "Norms only: the estimators that have a law, by their laws at the run's moments, for "
    "want of replicates."
)

_COLUMNS = ("Estimator", "Rank", "Ratio to the oracle")
_PARTS = {
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

_LEGEND = (
    "Slope: the part of the estimator's mean along the gradient, in lengths of the "
    "gradient; cosine: of the angle between the two. Exact values have no interval. * "
    "knows the value or the best baseline of each prompt, which training does not. † "
    "looks at other prompts; the products between their errors, of second order, are "
    "left out."
)


def _marked(estimator: Estimator) -> str:
    """Name an estimator, with the marks of the legend."""
    unreal = "*" if estimator.name in _UNREAL else ""
    return f"{estimator.name}{unreal}{'' if estimator.group_local else '†'}"


def _part(row: Ranked, name: str, level: float, power: int) -> str:
    """Write a figure in units of the power of ten that the column's head names."""
    if row.estimator.unbiased and name in _EXACT:
        return _EXACT[name]
    unit = 1.0 if name in _PURE else 10.0**power
    return cell(Estimate(*(one / unit for one in row.curve.interval(name, level))))


def _table(source: FinishedRun, ranking: Ranking) -> Html:
    power = power_of_ten(float(_oracle(ranking).point.scale_free_mse))
    unit = times(power).replace(" × ", ", in ")
    heads = [head if name in _PURE else f"{head}{unit}" for name, head in _PARTS.items()]
    rows = [
        [
            _marked(row.estimator),
            _place(row),
            cell(row.ratio),
            *(_part(row, name, source.level, power) for name in _PARTS),
        ]
        for row in ranking.ranked
    ]
    return table(f"Estimators of {source.name}, ranked", [*_COLUMNS, *heads], rows)


def _oracle(ranking: Ranking) -> Curve:
    return next(row.curve for row in ranking.ranked if row.estimator.name == ORACLE)


def _place(row: Ranked) -> Html:
    value, low, high = row.rank
    if math.isnan(low):
        return element("span", number(value))
    around = f"[{math.floor(low)}, {math.ceil(high)}]"
    return element("span", f"{value:.0f}", element("small", around))


def _compose(figure_: Figure, rows: Sequence[Ranked]) -> None:
    """A dot with its interval for each estimator, the best on top."""
    figure_.set_size_inches(3.7, 0.75 + 0.215 * len(rows))
    axes = figure_.add_subplot()
    for place, row in enumerate(reversed(rows)):
        value, low, high = row.ratio
        colour = COLOURS.get(row.estimator.name, _GREY)
        axes.plot([low, high], [place, place], color=colour, linewidth=1.4)
        face = colour if row.estimator.unbiased else "white"
        axes.plot(value, place, "o", color=colour, markersize=5, markerfacecolor=face)
    axes.axvline(1, color="0.45", linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(rows)), [_marked(row.estimator) for row in reversed(rows)])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xlabel("Scale-free MSE / the oracle's")


def _drawing(source: FinishedRun, ranking: Ranking) -> Html:
    rows = [row for row in ranking.ranked if not math.isnan(row.ratio.low)]
    told = "; ".join(f"{row.estimator.name} {interval(row.ratio)}" for row in rows)
    alt = f"Scale-free MSE over the oracle's, {source.name}, best first: {told}"
    drawing = inline_figure(
        lambda figure_: _compose(figure_, rows), f"rank-{source.key}", alt
    )
    caption = (
        f"{source.name}, G = {ranking.group_size}: ratio to the oracle with its "
        f"{source.level:.0%} interval; left of the line is better. Open: biased."
    )
    return figure(drawing, caption)


def _leaders(ranking: Ranking) -> str:
    """Say in a sentence which usable estimators are best and what the oracle costs."""
    usable = [row for row in ranking.ranked if row.estimator.name not in _UNREAL]
    if not usable or math.isnan(usable[0].ratio.low):
        return ""
    best = usable[0]
    tied = [
        row.estimator.name
        for row in usable[1:]
        if row.rank.low <= math.ceil(best.rank.high)
    ]
    also = f", not told apart from {', '.join(tied)}" if tied else ""
    return (
        f"Of those that training could use, {best.estimator.name} comes first at "
        f"{interval(best.ratio)} of the oracle's scale-free MSE{also}."
    )


def _why(estimator: Estimator) -> str:
    if not estimator.group_local:
        return "biased; looks at other prompts"
    if not estimator.reward_only:
        return "biased; looks at more than rewards"
    return "biased; no law for rewards other than 0 and 1"


def _others(ranking: Ranking, prompts: int) -> list[Html]:
    """List those without aggregate figures, and those that do not apply."""
    found: list[Html] = []
    if ranking.unranked:
        found.append(element("h4", "Not ranked"))
        found.append(
            paragraph(
                "The aggregate's bias of these has no cheap form, for the biases of "
                "prompts add up as vectors. Below, each prompt for itself, with the "
                "factor that suits it best: what they do to the balance between prompts "
                "is not seen."
            )
        )
        found.append(_unranked_table(ranking.unranked, prompts))
    if ranking.left_out:
        found.append(element("h4", "Left out"))
        found.append(bullets(ranking.left_out))
    return found


def _unranked_table(rows: Sequence[Unranked], prompts: int) -> Html:
    head = ("Estimator", "Median ratio to the oracle", "Prompts")
    cells = [
        [
            join(row.estimator.name, element("small", _why(row.estimator), class_="words")),
            cell(row.ratio),
            f"{row.prompts} of {prompts}",
        ]
        for row in rows
    ]
    return table("Estimators that are not ranked", head, cells)


def _caution(ranking: Ranking) -> list[Html]:
    """Say where the aggregate's gradient is too small to be told from zero."""
    if math.isnan(float(_oracle(ranking).point.scale_free_mse)):
        words = (
            "‖g‖² of the aggregate is not measurably positive, so no scale-free MSE can be "
            "had and nothing is ranked. More completions in the reference would help."
        )
    elif ranking.share_without:
        words = (
            f"In {ranking.share_without:.1%} of the draws ‖g‖² of the aggregate is not "
            "positive; the intervals leave those out and are too narrow."
        )
    else:
        return []
    return [paragraph(words, class_="warning")]


def _one_run(source: FinishedRun) -> Html:
    ranking = rank_estimators(source)
    known = any(not math.isnan(row.ratio.low) for row in ranking.ranked)
    leaders = _leaders(ranking)
    return article(
        f"{source.name}, G = {ranking.group_size}",
        *([paragraph(_LAW_ONLY, class_="note")] if source.law_only else []),
        *_caution(ranking),
        *([paragraph(leaders)] if leaders else []),
        *([_drawing(source, ranking)] if known else []),
        _table(source, ranking),
        *_others(ranking, source.pools.prompts),
        key=f"ranking-{source.key}",
    )


def ranking_section(sources: Sequence[FinishedRun]) -> list[Html]:
    """Rank the estimators of every run."""
    return [
        paragraph(_INTRODUCTION),
        *(_one_run(source) for source in sources),
        paragraph(_LEGEND, class_="note"),
    ]
