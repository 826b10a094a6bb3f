"""Figure 4: MSE against group size, a column for each model configuration.

A figure is a function of tables only, a run's files or those of a result in memory. Points
are the replicates' MSE with its interval, thin lines the exact law at the pool's moments.
Below stands the ratio to the oracle's, paired: both see the same groups, so its intervals
separate curves that coincide above. A run with norms only has no replicates: its laws are
drawn with the bands of their intervals.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mse_lab.formatting import number, wrap
from mse_lab.report.drawing import (
    RC,
    Style,
    draw_line,
    ink,
    label_plainly,
    legend_above,
    name_sizes,
    styles_of,
)
from mse_lab.results.analysis import BASE, FIGURE_4_ESTIMATORS, Analysis, interval_heads
from mse_lab.results.finished_run import Tables

# By the end of a run's name; SmolLM2's runs are one checkpoint behind three prompts.
TITLES = {"base": "Base", "instruct": "Instruct", "icl": "ICL"}
PROMPT_TITLES = {
    "smollm2/base": "Instruction",
    "smollm2/instruct": "Chat",
    "smollm2/icl": "Demonstrations",
    "smollm2/words-base": "Questions, bare",
    "smollm2/words-instruct": "Questions, chat",
    "smollm2/words-icl": "Questions, demonstrations",
}

# Inches: a panel's width, the space left of the panels, the rows' heights, the space above.
PANEL_WIDTH, BESIDE, HEIGHTS, ABOVE = 2.25, 0.5, (2.0, 1.3), 0.8

# Of the group-size axis, as a factor on either side, and between the ratios of two
# estimators at one size, whose intervals overlap.
SIDE_MARGIN, APART = 1.15, 1.06

POINTS: dict[str, Any] = {
    "linestyle": "",
    "markersize": 4,
    "markeredgewidth": 0.5,
    "elinewidth": 1.2,
    "capsize": 2,
    "zorder": 3,
}


class PanelRow(NamedTuple):
    """A row of panels."""

    points: str  # The column that is drawn as points.
    law: str  # The column that is drawn as lines.
    label: str  # That of the vertical axis.


FIGURE_ROWS = (
    PanelRow("mse", "law", "MSE of the gradient"),
    PanelRow("ratio", "law_ratio", "Ratio to oracle"),
)
NOTHING = "Nothing above zero,\nso nothing to draw."


def title_of(name: str) -> str:
    """Name a run for a reader; its own name where it has no other."""
    return PROMPT_TITLES.get(name) or TITLES.get(name.rpartition("/")[2], name)


def find_curves(run: Tables | Analysis) -> pd.DataFrame:
    """Find the curves of a run: the paper's three where they were measured, else all.

    Rows are (estimator, group size); columns are those of `mse.csv`, and `law_ratio`, which
    has no interval.
    """
    curves = run.mse.set_index(["estimator", "group_size"])
    base = curves["law"][curves.index.isin([BASE], level=0)].droplevel(0)
    curves = curves.assign(law_ratio=curves["law"].div(base.where(base > 0), level=1))
    papers = curves[curves.index.isin(FIGURE_4_ESTIMATORS, level=0)]
    return papers if len(papers) else curves


def _draw_curve(
    axes: Axes, curve: pd.DataFrame, row: PanelRow, style: Style, beside: float
) -> None:
    """Draw an estimator's law, and its points beside it; without a law, join the points."""
    points = curve[interval_heads(row.points)].dropna(subset=row.points)
    law = curve.reindex(columns=interval_heads(row.law))
    if points.empty:
        draw_line(axes, curve.index, law.to_numpy(), style)
        return
    line, dashes = (law[row.law].dropna(), "-")
    if line.empty:
        line, dashes = points[row.points], ":"
    axes.plot(line.index, line, dashes, color=style.colour, lw=0.9, zorder=2)
    value, low, high = points.to_numpy().T
    # An interval that misses its point, as at a level near zero, reaches zero on that side.
    reach = np.maximum([value - low, high - value], 0)
    settings = {"color": style.colour, "marker": style.mark, "label": style.label} | POINTS
    settings["markeredgecolor"] = ink(0)
    places = points.index.to_numpy() * beside
    axes.errorbar(places, value, yerr=reach, **settings)


def _drawable(curves: pd.DataFrame, row: PanelRow) -> pd.DataFrame:
    """Keep the curves of a row if any point of them fits on a logarithmic axis."""
    if row.points == "ratio":
        curves = curves.drop(BASE, level=0, errors="ignore")
    return curves if (curves[[row.points, row.law]] > 0).any(axis=None) else curves[:0]


def _draw_curves(
    axes: Axes, curves: pd.DataFrame, row: PanelRow, styles: Mapping[str, Style]
) -> None:
    """Draw a row's curves of one run, or say that there is nothing to draw."""
    sizes = sorted(set(curves.index.get_level_values(1)))
    axes.set_xscale("log", base=2)
    axes.set_xlim(sizes[0] / SIDE_MARGIN, sizes[-1] * SIDE_MARGIN)
    name_sizes(axes, sizes)
    drawable = _drawable(curves, row)
    if drawable.empty:
        axes.text(0.5, 0.5, NOTHING, transform=axes.transAxes, ha="center", va="center")
        return
    names = list(dict.fromkeys(drawable.index.get_level_values(0)))
    for name in dict.fromkeys(curves.index.get_level_values(0)):
        if name in names:
            place = names.index(name) - (len(names) - 1) / 2
            beside = APART**place if row.points == "ratio" else 1.0
            _draw_curve(axes, drawable.xs(name), row, styles[name], beside)
        else:
            axes.axhline(1, color=styles[name].colour, linewidth=1.1)


def _title(run: Tables | Analysis) -> str:
    """Name a run, its mean reward, and what a reader of its panel must know."""
    remarks = {"law only, no replicates": run.law_only, "A CHECK FAILED": not run.held}
    reward = number(run.prompts["value"].mean(), 2)
    head = wrap(f"{title_of(run.name)} (mean\u00a0reward\u00a0{reward})", 30)
    return "\n".join([head, *(remark for remark, true in remarks.items() if true)])


def _scale_row(panels: Sequence[Axes], label: str) -> None:
    """Give a row of panels its common axis, where anything is drawn on it."""
    drawn = [axes for axes in panels if axes.has_data()]
    for axes in drawn[:1]:
        axes.set_yscale("log", nonpositive="clip")
        axes.set_ylabel(label)
        axes.tick_params(labelleft=True)
        label_plainly(axes.yaxis)
    for axes in panels:
        if axes not in drawn:
            axes.grid(visible=False)
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", which="both", left=False, labelleft=False)


def compose(runs: Sequence[Tables | Analysis]) -> Figure:
    """Compose a column for each run; the ratios' row is left out where no run has any."""
    curves = [find_curves(run) for run in runs]
    styles = styles_of(dict.fromkeys(name for curve in curves for name, _ in curve.index))
    ratios = any(len(_drawable(curve, FIGURE_ROWS[1])) for curve in curves)
    rows = FIGURE_ROWS[: 1 + ratios]
    heights = HEIGHTS[: len(rows)]
    size = (BESIDE + PANEL_WIDTH * len(curves), ABOVE + sum(heights))
    figure = Figure(figsize=size, layout="constrained")
    shared: dict[str, Any] = {"sharex": "col", "sharey": "row", "height_ratios": heights}
    grid = figure.subplots(len(rows), len(curves), squeeze=False, **shared)
    for row, panels in zip(rows, grid, strict=True):
        for axes, run_curves in zip(panels, curves, strict=True):
            _draw_curves(axes, run_curves, row, styles)
        _scale_row(panels, row.label)
    for axes, run in zip(grid[0], runs, strict=True):
        axes.set_title(_title(run))
    figure.supxlabel("Group size G", fontsize=RC["axes.labelsize"])
    law = {"exact law": Line2D([], [], color=ink(0.7), linewidth=0.9)}
    legend_above(figure, max(2, min(2 * len(runs), 4)), law)
    return figure
