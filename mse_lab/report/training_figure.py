"""The figure of a training study: J against G, and against what was predicted; Table 2.

Above, for each evaluation step of the main grid: means over seeds with 95% bands, the best
group size ringed; the predicted one dashed, its interval shaded. Beside them the last step
of the other arms. Below, Table 2's form: the last step's J of every budget and group size,
the best of a row in bold.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mse_lab.answers.peak import Curve
from mse_lab.answers.predicted_group_size import Predicted
from mse_lab.answers.training_verdict import curve_of, mean_interval
from mse_lab.arrays import Floats
from mse_lab.probe.study import MAIN, Arm, Study, arms_of, arms_that_differ_in
from mse_lab.report.drawing import (
    Style,
    colours_of,
    draw_line,
    legend_above,
    name_sizes,
    reach,
    save_figure,
    styles_of,
)

RING: dict[str, Any] = {"ls": "", "marker": "o", "ms": 10, "mfc": "none", "mew": 1.3}


def _means(curve: Curve, level: float) -> Floats:
    """Mean over seeds with its interval at each group size, rows of (value, low, high)."""
    return np.array([mean_interval(column, level) for column in curve.values_SG.T])


def _draw_curves(
    axes: Axes, curves: Mapping[int, Curve], predicted: Predicted, level: float
) -> None:
    for (step, curve), colour in zip(curves.items(), colours_of(len(curves)), strict=True):
        label = f"step {step}"
        draw_line(axes, curve.sizes, _means(curve, level), Style(colour, "o", label))
        best = int(np.argmax(curve.means))
        axes.plot(curve.sizes[best], curve.means[best], color=colour, **RING)
    found = predicted.interval(level)
    axes.axvline(found.value, color="0.3", lw=1, ls="--", label="predicted G*")
    axes.axvspan(found.low, found.high, color="0.5", alpha=0.18, lw=0, zorder=0)
    axes.plot([], [], color="0.3", label="best G", **RING)
    axes.set_xscale("log", base=2)
    name_sizes(axes, curve.sizes.astype(int).tolist())
    axes.set(xlabel="Group size G", ylabel="Mean reward J")


def _draw_against_error(
    axes: Axes, curves: Mapping[int, Curve], predictions: Mapping[int, Predicted]
) -> None:
    """Draw J against what was predicted of the noise on the way there."""
    for (step, curve), colour in zip(curves.items(), colours_of(len(curves)), strict=True):
        error = predictions[step].mse_times_budget(curve.sizes)
        relative, order = error / error.min(), np.argsort(error)
        axes.plot(relative[order], curve.means[order], "o-", color=colour, ms=3.5, lw=0.9)
    best = curve.sizes[np.argmin(error)]
    for size, x, y in zip(curve.sizes, relative, curve.means, strict=True):
        # Sizes on either side of the best may have one N MSE.
        side = (0, -11, "center") if size < best else (3, 4, "left")
        place: dict[str, Any] = {"xytext": side[:2], "textcoords": "offset points"}
        axes.annotate(f"{size:.0f}", (x, y), ha=side[2], fontsize=7.5, **place)
    axes.margins(x=0.08)
    axes.set(xlabel="Predicted N MSE / its least")


def _budgets(study: Study, table: pd.DataFrame) -> list[Arm]:
    """Give the arms that differ from the main grid in their budget alone, in its order."""
    alike = arms_that_differ_in(study, "budget")
    return [arm for arm in alike if (table["arm"] == arm.name).any()]


def _others(study: Study, table: pd.DataFrame) -> dict[str, Curve]:
    """Take the last step of the arms that differ from the main grid in more than N."""
    known = {arm.name for arm in _budgets(study, table)}
    curves = {
        arm.name: curve_of(table, arm.name, study.steps)
        for arm in arms_of(study)
        if arm.name not in known
    }
    return {name: curve for name, curve in curves.items() if len(curve.values_SG)}


def _draw_others(axes: Axes, others: Mapping[str, Curve], level: float) -> None:
    """Draw the arms, means with their intervals, side by side at each group size."""
    styles, drawn = styles_of(others), []
    for place, (name, curve) in enumerate(others.items()):
        means, (colour, mark, _, _) = _means(curve, level), styles[name]
        one = axes.errorbar(
            curve.sizes * 2 ** (0.05 * (place - (len(others) - 1) / 2)),
            means[:, 0],
            np.nan_to_num(reach(means)),
            color=colour,
            marker=mark,
            ms=3.5,
            lw=0.9,
        )
        drawn.append(one)
    axes.set_xscale("log", base=2)
    sizes = {int(size) for curve in others.values() for size in curve.sizes}
    name_sizes(axes, sorted(sizes))
    axes.set(xlabel="Group size G", title="Other arms, last step")
    axes.legend(drawn, list(others), loc="lower left", fontsize=7, handlelength=1.4)


def table_2(
    study: Study, table: pd.DataFrame
) -> tuple[list[str], list[int], list[list[str]], list[int]]:
    """Give the rows' names, the group sizes, the cells, and the best place of each row."""
    names, cells, best = [], [], []
    sizes = [int(size) for size in curve_of(table, MAIN, study.steps).sizes]
    for arm in _budgets(study, table):
        curve = curve_of(table, arm.name, study.steps)
        if not len(curve.values_SG):
            continue
        found = {
            int(size): f"{value:.3f}" + f" ± {high - value:.3f}" * math.isfinite(high)
            for size, (value, _, high) in zip(
                curve.sizes, _means(curve, study.level), strict=True
            )
        }
        names.append(f"N = {arm.training.budget}")
        cells.append([found.get(size, "") for size in sizes])
        best.append(sizes.index(int(curve.sizes[np.argmax(curve.means)])))
    return names, sizes, cells, best


def _draw_table(axes: Axes, study: Study, table: pd.DataFrame) -> None:
    names, sizes, cells, best = table_2(study, table)
    axes.axis("off")
    heads = [f"G = {size}" for size in sizes]
    drawn = axes.table(
        cells, rowLabels=names, colLabels=heads, loc="center", cellLoc="center", edges="B"
    )
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(7.5)
    for row, column in enumerate(best):
        drawn[row + 1, column].get_text().set_fontweight("bold")
    for cell in drawn.get_celld().values():
        cell.set_edgecolor("0.8")


def compose_training(
    study: Study, table: pd.DataFrame, predictions: Mapping[int, Predicted]
) -> Figure:
    """Compose the figure of what has run of a study; bands need two seeds."""
    steps: Sequence[int] = study.evaluation.steps
    curves = {step: curve_of(table, MAIN, step) for step in steps}
    others = _others(study, table)
    rows, panels = len(_budgets(study, table)) + 1, 2 + bool(others)
    height = 0.25 * rows
    figure = Figure(figsize=(3.6 * panels, 3.5 + height), layout="constrained")
    grid = figure.add_gridspec(2, panels, height_ratios=[3.0, height])
    left = figure.add_subplot(grid[0, 0])
    right = figure.add_subplot(grid[0, 1], sharey=left)
    _draw_curves(left, curves, predictions[steps[-1]], study.level)
    _draw_against_error(right, curves, predictions)
    if others:
        _draw_others(figure.add_subplot(grid[0, 2], sharey=left), others, study.level)
    _draw_table(figure.add_subplot(grid[1, :]), study, table)
    seeds = len(curves[steps[-1]].values_SG)
    legend_above(
        figure,
        len(steps) + 2,
        title=f"{study.probe}, N = {study.budget}, eta = {study.eta:g}, "
        f"{seeds} seeds; below, step {steps[-1]} with {study.level:.0%} intervals",
        fontsize=8.5,
        title_fontsize=8.5,
        handlelength=1.4,
        columnspacing=1.1,
    )
    return figure


def draw_training(
    study: Study, table: pd.DataFrame, predictions: Mapping[int, Predicted], output: Path
) -> None:
    """Draw the figure into a `.png`, `.pdf` or `.svg` file.

    Raises:
        InputError: The suffix or the place cannot be used.
    """
    save_figure(lambda: compose_training(study, table, predictions), output)
