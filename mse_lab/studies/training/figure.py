"""The figure of a training study: J against G, on the prompts of training and held out.

A row for each set of prompts. Left the main grid at each step at which J was measured:
means over seeds with their intervals, and the runs of the last step as dots. Right the last
step of every step size. Rings mark the group sizes that are not significantly worse than
another; dotted is J before training and dashed the predicted group size, its interval
shaded.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mse_lab.report.drawing import Style, colours_of, draw_line, name_sizes
from mse_lab.studies.training.best_sizes import Curve, regrets
from mse_lab.studies.training.predicted_group_size import Predicted
from mse_lab.studies.training.settings import MAIN, Study, arms_that_differ_in
from mse_lab.studies.training.verdict import (
    FEWEST,
    PROMPTS,
    curve_of,
    mean_interval,
)

RING: dict[str, Any] = {"ls": "", "marker": "o", "ms": 8, "mfc": "none", "mew": 1.1}


class Panel(NamedTuple):
    """Curves of J over some prompts; what has run at no group size is not drawn."""

    prompts: str
    title: str
    curves: dict[str, Curve]
    colours: dict[str, str]


def _panel(prompts: str, title: str, curves: dict[str, Curve], palette: str) -> Panel:
    colours = dict(zip(curves, colours_of(len(curves), palette), strict=True))
    drawn = {name: curve for name, curve in curves.items() if len(curve.values_SG)}
    return Panel(prompts, title, drawn, colours)


def rows_of(study: Study, table: pd.DataFrame) -> list[list[Panel]]:
    """Give a row to each set of prompts: the main grid's steps, then the step sizes."""
    last, arms, rows = study.steps, arms_that_differ_in(study, "eta"), []
    for prompts in PROMPTS:
        steps = {
            f"step {step}": curve_of(table, MAIN, step, prompts)
            for step in study.evaluation.steps
        }
        etas = {
            f"eta = {arm.training.eta:g}": curve_of(table, arm.name, last, prompts)
            for arm in arms
        }
        row = [_panel(prompts, f"Along training, eta = {study.eta:g}", steps, "plasma")]
        if len(arms) > 1:
            row.append(_panel(prompts, f"Step sizes, step {last}", etas, "viridis"))
        if any(panel.curves for panel in row):
            rows.append(row)
    return rows


def _judged(curve: Curve) -> bool:
    return len(curve.values_SG) >= FEWEST and len(curve.sizes) > 1


def _draw_curve(axes: Axes, label: str, curve: Curve, colour: str, level: float) -> None:
    """Draw means with their intervals; ring those of the set, where there are seeds."""
    intervals = [mean_interval(column, level) for column in curve.values_SG.T]
    draw_line(axes, curve.sizes, np.array(intervals), Style(colour, "o", label))
    if _judged(curve):
        chosen = [loss.in_set for loss in regrets(curve, level)]
        axes.plot(curve.sizes[chosen], curve.means[chosen], color=colour, **RING)


def _draw_runs(axes: Axes, curve: Curve, colour: str) -> None:
    """Draw every run: where some break down, the mean describes none of them."""
    for values_G in curve.values_SG:
        axes.plot(curve.sizes, values_G, ls="", marker=".", ms=4, color=colour, alpha=0.5)


def _draw_panel(axes: Axes, panel: Panel, level: float) -> None:
    """Draw curves, and name them where the larger group sizes have left room."""
    for label, curve in panel.curves.items():
        _draw_curve(axes, label, curve, panel.colours[label], level)
    sizes = {int(size) for curve in panel.curves.values() for size in curve.sizes}
    axes.set_xscale("log", base=2)
    # An uncertain prediction may reach beyond the group sizes; what is trained is shown.
    axes.set_xlim(min(sizes) / 1.2, max(sizes) * 1.2)
    name_sizes(axes, sorted(sizes))
    axes.set(title=panel.title, xlabel="Group size G")
    axes.legend(
        loc="lower left", fontsize=7.5, handlelength=1.2, framealpha=1, edgecolor="w"
    )


def _draw_before(
    axes: Axes, predicted: Predicted, start: float | None, level: float
) -> dict[str, Any]:
    """Draw what was known before: the predicted group sizes, J of the checkpoint."""
    best = predicted.interval(level)
    axes.axvspan(best.low, best.high, color="0.5", alpha=0.18, lw=0, zorder=0)
    named = {"predicted G*": axes.axvline(best.value, color="0.3", lw=1, ls="--")}
    if start is not None:
        named["before training"] = axes.axhline(start, color="0.3", lw=1, ls=":")
    return named


def compose_training(
    study: Study,
    table: pd.DataFrame,
    predicted: Predicted,
    start: Mapping[str, float],
) -> Figure:
    """Compose the figure of what has run of a study."""
    rows, level, named = rows_of(study, table), study.level, dict[str, Any]()
    judged = False
    columns = len(rows[0])
    figure = Figure(figsize=(3.7 * columns, 2.9 * len(rows) + 0.5), layout="constrained")
    grid = figure.subplots(len(rows), columns, sharey="row", squeeze=False)
    for row, axes_row in zip(rows, grid, strict=True):
        for panel, axes in zip(row, axes_row, strict=True):
            if not panel.curves:
                axes.axis("off")
                continue
            _draw_panel(axes, panel, level)
            judged |= any(map(_judged, panel.curves.values()))
            named |= _draw_before(axes, predicted, start.get(panel.prompts), level)
        label, curve = list(row[0].curves.items())[-1]
        _draw_runs(axes_row[0], curve, row[0].colours[label])
        axes_row[0].set_ylabel(f"Mean reward J, {row[0].prompts} prompts")
    title = f"{study.probe}, N = {study.budget}; means over seeds"
    if judged:
        title += f", {level:.0%} intervals"
        named["not significantly worse"] = Line2D([], [], color="0.3", **RING)
    figure.legend(
        list(named.values()), list(named), loc="outside upper center",
        ncols=min(len(named), 2 * columns), title=title, frameon=False, fontsize=8.5,
        title_fontsize=8.5,
    )  # fmt: skip
    return figure
