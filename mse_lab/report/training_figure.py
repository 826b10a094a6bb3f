"""The figure of a training study: J against G, and against what was predicted; Table 2.

For each evaluation step of the main grid: means over seeds with 95% bands, the best group
size ringed; the predicted one dashed, its interval shaded; the runs of the last step as
dots. Then the last step of the arms: of other step sizes, and those that differ in more.
Below, Table 2's form: the last step's J of every budget and group size, the best of a row
in bold.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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
    # The runs of the last step: where some break down their mean is nobody's.
    dots: dict[str, Any] = {"color": colour, "ls": "", "marker": ".", "ms": 4, "alpha": 0.6}
    for values_G in curve.values_SG:
        axes.plot(curve.sizes, values_G, **dots)
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


def _curves_of(arms: Sequence[Arm], table: pd.DataFrame, step: int) -> dict[str, Curve]:
    """Take J at a step of the arms of which a seed has run at every group size."""
    curves = {arm.name: curve_of(table, arm.name, step) for arm in arms}
    return {name: curve for name, curve in curves.items() if len(curve.values_SG)}


def _draw_arms(
    axes: Axes, curves: Mapping[str, Curve], styles: Mapping[str, Style], level: float
) -> None:
    """Draw arms, means with their intervals, side by side at each group size."""
    drawn = []
    for place, (name, curve) in enumerate(curves.items()):
        means, (colour, mark, _, _) = _means(curve, level), styles[name]
        one = axes.errorbar(
            curve.sizes * 2 ** (0.06 * (place - (len(curves) - 1) / 2)),
            means[:, 0],
            np.nan_to_num(reach(means)),
            color=colour,
            marker=mark,
            ms=3.5,
            lw=0.9,
        )
        drawn.append(one)
    axes.set_xscale("log", base=2)
    sizes = {int(size) for curve in curves.values() for size in curve.sizes}
    name_sizes(axes, sorted(sizes))
    axes.set(xlabel="Group size G", ylabel="Mean reward J")
    labels = [styles[name].label for name in curves]
    axes.legend(drawn, labels, loc="lower left", fontsize=7.5, handlelength=1.4)


class Panel(NamedTuple):
    """Arms that stand beside the main grid, at the last step."""

    title: str
    curves: dict[str, Curve]
    styles: dict[str, Style]


def _panels(study: Study, table: pd.DataFrame) -> list[Panel]:
    """Give a panel to the step sizes, and one to the arms that differ in more."""
    steps = arms_that_differ_in(study, "eta")
    known = {arm.name for arm in [*steps, *arms_that_differ_in(study, "budget")]}
    others = [arm for arm in arms_of(study) if arm.name == MAIN or arm.name not in known]
    by_eta = {
        arm.name: Style(colour, "o", f"eta = {arm.training.eta:g}")
        for arm, colour in zip(steps, colours_of(len(steps), "viridis"), strict=True)
    }
    by_name = {MAIN: Style("0.35", "s", MAIN)}
    by_name |= styles_of(arm.name for arm in others if arm.name != MAIN)
    last = f"step {study.steps}"
    both = [
        Panel(f"Step sizes, {last}", _curves_of(steps, table, study.steps), by_eta),
        Panel(f"Other arms, {last}", _curves_of(others, table, study.steps), by_name),
    ]
    return [panel for panel in both if len(panel.curves) > 1]


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
    panels = _panels(study, table)
    columns = 3 if len(panels) == 1 else 2
    above, below = [3.3] * (1 + len(panels) // 2), 0.25 * (len(_budgets(study, table)) + 1)
    figure = Figure(figsize=(3.7 * columns, sum(above) + below + 0.5), layout="constrained")
    grid = figure.add_gridspec(len(above) + 1, columns, height_ratios=[*above, below])
    left = figure.add_subplot(grid[0, 0])
    right = figure.add_subplot(grid[0, 1], sharey=left)
    _draw_curves(left, curves, predictions[steps[-1]], study.level)
    _draw_against_error(right, curves, predictions)
    for place, panel in enumerate(panels, start=2):
        axes = figure.add_subplot(grid[divmod(place, columns)], sharey=left)
        _draw_arms(axes, panel.curves, panel.styles, study.level)
        axes.set_title(panel.title)
    # Student's intervals of few seeds reach beyond what J can be.
    drawn: list[Mapping[Any, Curve]] = [curves, *(panel.curves for panel in panels)]
    seen = np.concatenate(
        [one.values_SG.ravel() for part in drawn for one in part.values()]
    )
    margin = 0.06 * max(np.ptp(seen), 0.1)
    left.set_ylim(seen.min() - margin, seen.max() + margin)
    _draw_table(figure.add_subplot(grid[-1, :]), study, table)
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
