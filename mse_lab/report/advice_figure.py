"""The advice's figure: MSE against group size at a fixed budget of completions.

The band is GRPO-type's interval over prompts; the shaded stretch holds the group sizes
that cost at most 5% more than the best, or what the headline says, at the run's level of
confidence.
"""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mse_lab.answers.advice import CURVE_SIZES, Advice
from mse_lab.formatting import with_interval
from mse_lab.mse.regret import SIZES
from mse_lab.report.drawing import (
    RC,
    STYLES,
    draw_line,
    label_plainly,
    legend_above,
    name_sizes,
)

# Of the group-size axis, as a factor on either side.
MARGIN = 1.2

# How far below and above all curves the panel goes at most, as a factor: a band that has
# hardly an end leaves it.
ROOM = 5

_LEGEND: dict[str, Any] = {
    "fontsize": RC["font.size"],
    "title_fontsize": RC["font.size"],
    "handlelength": 1.4,
    "handletextpad": 0.5,
    "columnspacing": 1.1,
}


def _draw_curves(axes: Axes, advice: Advice) -> None:
    for name, style in STYLES.items():
        curve = np.array(advice.curves[name])
        draw_line(axes, CURVE_SIZES, curve, style, band=name == "grpo")
    values = [advice.curves["grpo"][CURVE_SIZES.index(size)].value for size in SIZES]
    mark, colour = STYLES["grpo"].mark, STYLES["grpo"].colour
    axes.plot(SIZES, values, mark, color=colour, markersize=4, mec="white", mew=0.5)
    axes.set_xlim(CURVE_SIZES[0] / MARGIN, CURVE_SIZES[-1] * MARGIN)
    points = [point.value for name in STYLES for point in advice.curves[name]]
    if values := [value for value in points if value > 0]:
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, min(values) / ROOM), min(high, max(values) * ROOM))


def _mark_best(axes: Axes, advice: Advice) -> None:
    best, (first, last) = advice.best, axes.get_xlim()
    low, high = advice.near_best
    axes.axvspan(low, high, color="0.5", alpha=0.18, linewidth=0, zorder=0)
    if advice.unbounded:
        axes.set_title(f"G* at least {best.low:.1f}, no upper bound on this evidence")
        return
    if first <= best.value <= last:
        axes.axvline(best.value, color="0.3", linewidth=0.9, linestyle=":", zorder=1)
    axes.set_title(f"G* = {with_interval(best)}")


def _add_relative_scale(axes: Axes, gradient2: float) -> None:
    both_ways = (
        lambda mse: np.divide(mse, gradient2),
        lambda error: np.multiply(error, gradient2),
    )
    right = axes.secondary_yaxis("right", functions=both_ways)
    right.set_ylabel("MSE / ||g||²")
    right.spines["right"].set_visible(True)
    label_plainly(right.yaxis, like=axes.yaxis)


def compose_advice(advice: Advice) -> Figure:
    """Compose the MSE against the group size at a fixed budget."""
    figure = Figure(figsize=(4.2, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel="Group size G", ylabel=f"MSE at N = {advice.budget:,} completions")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", nonpositive="clip")
    _draw_curves(axes, advice)
    _mark_best(axes, advice)
    label_plainly(axes.yaxis)
    if not math.isinf(advice.noise_scale.high):
        _add_relative_scale(axes, advice.gradient2.value)
    name_sizes(axes, SIZES)
    legend_above(figure, 4, title="Exact law, for prompts drawn at random", **_LEGEND)
    if not advice.held:
        figure.suptitle("A CHECK FAILED")
    return figure
