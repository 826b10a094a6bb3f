"""The advice's figure: N MSE against group size, for prompts drawn at random.

The band is GRPO-type's interval over prompts; the shaded stretch is that of the best group
size G*.
"""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mse_lab.answers.advice_evidence import Evidence
from mse_lab.arrays import Floats
from mse_lab.formatting import with_interval
from mse_lab.mse.constants import Constants, mse_times_budget
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.rule import SIZES
from mse_lab.report.drawing import (
    RC,
    STYLES,
    draw_line,
    ink,
    label_plainly,
    legend_above,
    name_sizes,
)

# Where the curves are evaluated; every eighth is one of SIZES.
CURVE_SIZES = tuple(2 ** (step / 8) for step in range(8, 65))

# Of the group-size axis, as a factor on either side.
MARGIN = 1.2

# How far below and above all curves the panel goes at most, as a factor: a band that has
# hardly an end leaves it.
LARGEST_ROOM = 5

_LEGEND: dict[str, Any] = {
    "fontsize": RC["font.size"],
    "title_fontsize": RC["font.size"],
    "handlelength": 1.4,
    "handletextpad": 0.5,
    "columnspacing": 1.1,
}


def _curve(evidence: Evidence, name: str) -> list[Estimate]:
    def error(size: float) -> Estimate:
        def figure(constants: Constants) -> Floats:
            return mse_times_budget(name, constants, size)

        return evidence.table.estimate_positive(figure, evidence.level)

    return [error(size) for size in CURVE_SIZES]


def _draw_curves(axes: Axes, evidence: Evidence) -> None:
    curves = {name: _curve(evidence, name) for name in STYLES}
    for name, style in STYLES.items():
        curve = np.array(curves[name])
        draw_line(axes, CURVE_SIZES, curve, style, band=name == "grpo")
    values = [curves["grpo"][CURVE_SIZES.index(size)].value for size in SIZES]
    mark, colour = STYLES["grpo"].mark, STYLES["grpo"].colour
    axes.plot(SIZES, values, mark, color=colour, markersize=4, mec=ink(0), mew=0.5)
    axes.set_xlim(CURVE_SIZES[0] / MARGIN, CURVE_SIZES[-1] * MARGIN)
    points = [point.value for name in STYLES for point in curves[name]]
    if values := [value for value in points if value > 0]:
        low, high = axes.get_ylim()
        axes.set_ylim(
            max(low, min(values) / LARGEST_ROOM), min(high, max(values) * LARGEST_ROOM)
        )


def _mark_best(axes: Axes, best: Estimate) -> None:
    first, last = axes.get_xlim()
    axes.axvspan(max(best.low, first), min(best.high, last), color="0.5", alpha=0.18, lw=0)
    if math.isinf(best.high):
        axes.set_title(f"G* at least {best.low:.1f}, no upper bound on this evidence")
        return
    if first <= best.value <= last:
        axes.axvline(best.value, color=ink(0.7), linewidth=0.9, linestyle=":", zorder=1)
    axes.set_title(f"G* = {with_interval(best)}")


def compose_advice(evidence: Evidence) -> Figure:
    """Compose N MSE against the group size."""
    figure = Figure(figsize=(4.2, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel="Group size G", ylabel="Completions x MSE")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", nonpositive="clip")
    _draw_curves(axes, evidence)
    _mark_best(axes, evidence.best_group_size)
    label_plainly(axes.yaxis)
    name_sizes(axes, SIZES)
    legend_above(figure, 4, title="Exact law, for prompts drawn at random", **_LEGEND)
    if not evidence.held:
        figure.suptitle("A CHECK FAILED")
    return figure
