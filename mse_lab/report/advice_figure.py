"""The advice's figure: MSE against group size at a fixed budget of completions.

The band is GRPO-type's interval over prompts; the shaded stretch that of the best group
size G*, open to the right where the evidence sets no upper bound.
"""

import math
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import YAxis
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter, NullLocator

from mse_lab.answers.advice import BUDGET, CURVE_SIZES, SIZES, Advice
from mse_lab.report.figure_4 import COLOURS, LABELS, STYLE, save_figure

# Of the group-size axis, as a factor on either side.
MARGIN = 1.2

# Drawn in this order; the best constant baseline is no estimator of Figure 4.
LINES = {
    "vanilla": (COLOURS["vanilla"], LABELS["vanilla"], "-"),
    "grpo": (COLOURS["grpo"], LABELS["grpo"], "-"),
    "oracle": (COLOURS["oracle"], LABELS["oracle"], "-"),
    "best-constant": ("0.35", "Best constant", (0, (4, 1.5))),
}


def _draw_curves(axes: Axes, advice: Advice) -> None:
    for name, (colour, label, dashes) in LINES.items():
        values = [estimate.value for estimate in advice.curves[name]]
        axes.plot(CURVE_SIZES, values, color=colour, linestyle=dashes, label=label, lw=1.3)
    colour = LINES["grpo"][0]
    lows = [estimate.low for estimate in advice.curves["grpo"]]
    highs = [estimate.high for estimate in advice.curves["grpo"]]
    axes.fill_between(CURVE_SIZES, lows, highs, color=colour, alpha=0.2, linewidth=0)
    values = [advice.curves["grpo"][CURVE_SIZES.index(size)].value for size in SIZES]
    axes.plot(SIZES, values, "s", color=colour, markersize=4, mec="white", mew=0.5)


def _mark_best(axes: Axes, advice: Advice) -> None:
    """Mark G* and its interval, and write it above the panel."""
    best, (first, last) = advice.best, axes.get_xlim()
    low, high = (min(max(end, first), last) for end in (best.low, best.high))
    axes.axvspan(low, high, color="0.5", alpha=0.18, linewidth=0, zorder=0)
    if advice.unbounded:
        axes.set_title(f"G* at least {best.low:.1f}, no upper bound on this evidence")
        return
    if first <= best.value <= last:
        axes.axvline(best.value, color="0.3", linewidth=0.9, linestyle=":", zorder=1)
    axes.set_title(f"G* = {best.value:.1f} ({best.low:.1f} to {best.high:.1f})")


def _label_plainly(axis: YAxis) -> None:
    """Label 0.1, 0.2, 0.5, 1, ... instead of powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())


def _add_relative_scale(axes: Axes, advice: Advice) -> None:
    """Give the MSE relative to ||g||^2 on the right, where that is measurably positive."""
    if math.isinf(advice.noise_scale.high):
        return
    gradient2 = advice.gradient2.value
    right = axes.secondary_yaxis(
        "right",
        functions=(
            lambda mse: np.divide(mse, gradient2),
            lambda error: np.multiply(error, gradient2),
        ),
    )
    right.set_ylabel("MSE / ||g||²")
    right.spines["right"].set_visible(True)
    _label_plainly(right.yaxis)


def _compose(advice: Advice) -> Figure:
    figure = Figure(figsize=(4.2, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", nonpositive="clip")
    _draw_curves(axes, advice)
    axes.set_xlim(CURVE_SIZES[0] / MARGIN, CURVE_SIZES[-1] * MARGIN)
    _mark_best(axes, advice)
    _label_plainly(axes.yaxis)
    _add_relative_scale(axes, advice)
    axes.set_xticks(SIZES, [str(size) for size in SIZES])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("Group size G")
    axes.set_ylabel(f"MSE at N = {BUDGET} completions")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=4,
        frameon=False,
        handlelength=1.4,
        handletextpad=0.5,
        columnspacing=1.1,
        fontsize=STYLE["font.size"],
    )
    if advice.warning:
        figure.suptitle("A CHECK FAILED")
    return figure


def draw_advice(advice: Advice, output: Path) -> None:
    """Draw the MSE against the group size at a fixed budget.

    Args:
        advice: The advice of a run.
        output: The file; `.png`, `.pdf` or `.svg` by its suffix.

    Raises:
        InputError: The suffix or the place cannot be used.
    """
    save_figure(lambda: _compose(advice), output)
