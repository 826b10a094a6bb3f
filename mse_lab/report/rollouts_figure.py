"""A trainer's log as a figure.

Panels, where the log has what they show: the values of prompts as a histogram; the share of
zero-variance groups against the group size with its band, the size in use marked;
lengths by reward; the mean reward along the steps.
"""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from mse_lab.arrays import Floats
from mse_lab.logs.summary import Summary
from mse_lab.report.drawing import STYLES, draw_line, ink, name_sizes

COLOUR = STYLES["grpo"].colour
RIGHT, WRONG = STYLES["oracle"].colour, STYLES["vanilla"].colour

# Bins of the histogram, and dots of the drift at most.
BINS, MOST_STEPS = 20, 40


def _legend_above(axes: Axes) -> None:
    legend = axes.get_legend() or axes.legend()  # Seaborn has made its own.
    settings = {"ncols": len(legend.texts), "frameon": False, "handlelength": 1.4}
    sns.move_legend(axes, "lower center", bbox_to_anchor=(0.5, 1.0), title="", **settings)


def _edges(lengths_N: Floats) -> Floats:
    """Bins of lengths: a bin for each whole number where they are few."""
    low, high = lengths_N.min(), lengths_N.max()
    if high - low < MOST_STEPS:
        return np.arange(low - 0.5, high + 1.5)
    return np.linspace(low, high, 2 * BINS)


def _draw_values(axes: Axes, summary: Summary) -> None:
    least, most = summary.groups.range
    edges = np.linspace(least, most if most > least else least + 1, BINS + 1)
    sns.histplot(
        x=summary.prompts["value"], bins=edges, color=COLOUR, edgecolor=ink(0), ax=axes
    )
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="Value V of a prompt", ylabel="Prompts")
    axes.set_title(f"{len(summary.prompts):,} prompts")


def _draw_forecast(axes: Axes, summary: Summary) -> None:
    shares = summary.numbers["forecast"]
    sizes, curve = np.array([*shares]), np.array([*shares.values()])
    style = STYLES["grpo"]._replace(label="")
    draw_line(axes, sizes, curve, style)
    axes.plot(sizes, curve[:, 0], style.mark, color=COLOUR, ms=4, mec=ink(0))
    size = summary.groups.size_in_use
    used = curve[sizes == size][:, 0]
    label = f"in use, G = {size}"
    axes.plot(sizes[sizes == size], used, "o", ms=9, mfc="none", mec=ink(0.8), label=label)
    axes.set_xscale("log", base=2)
    name_sizes(axes, sizes.tolist())
    axes.set_ylim(0, min(1.0, 1.15 * np.nanmax(curve) + 0.02))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set(xlabel="Group size G", ylabel="Zero-variance groups")
    _legend_above(axes)


def _draw_lengths(axes: Axes, summary: Summary) -> None:
    if summary.groups.lengths is None:
        return
    unit, lengths_N = summary.groups.lengths
    groups = summary.groups
    names = ("right", "wrong") if groups.binary else ("largest reward", "least reward")
    labels = np.where(
        groups.completions["right"],
        names[0],
        np.where(groups.completions["wrong"], names[1], "between"),
    )
    order = [name for name in (names[1], "between", names[0]) if (labels == name).any()]
    frame = pd.DataFrame({"length": lengths_N, "reward": labels})
    colours = {names[0]: RIGHT, names[1]: WRONG, "between": "0.6"}
    sns.histplot(
        frame,
        x="length",
        hue="reward",
        hue_order=order,
        palette=colours,
        element="step",
        bins=_edges(lengths_N),
        stat="percent",
        common_norm=False,
        alpha=0.25,
        ax=axes,
    )
    _legend_above(axes)
    axes.set(xlabel=f"Length of a completion, {unit}", ylabel="Completions, %")


def _draw_drift(axes: Axes, summary: Summary) -> None:
    steps = summary.steps
    width = -(-len(steps) // MOST_STEPS)
    steps = steps.groupby(np.arange(len(steps)) // width).mean()
    lines = {
        "mean reward": ("mean_reward", STYLES["oracle"]),
        "zero-variance groups": ("zero_variance", STYLES["grpo"]),
    }
    for label, (column, style) in lines.items():
        axes.plot(
            steps["step"],
            steps[column],
            style.mark,
            color=style.colour,
            ms=3.5,
            ls="-",
            lw=0.9,
            mec=ink(0),
            mew=0.4,
            label=label,
        )
    axes.set(xlabel="Training step", ylabel="")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(bottom=min(0.0, steps["mean_reward"].min()))
    _legend_above(axes)


def compose_rollouts(summary: Summary) -> Figure:
    """Compose the figure, two panels in a row."""
    drawable = {
        _draw_values: True,
        _draw_forecast: bool(summary.numbers["forecast"]),
        _draw_lengths: summary.groups.lengths is not None,
        _draw_drift: len(summary.steps) > 1,
    }
    panels = [draw for draw, possible in drawable.items() if possible]
    rows = -(-len(panels) // 2)
    figure = Figure(figsize=(6.8, 2.6 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, min(len(panels), 2))).ravel()
    for draw, panel in zip(panels, axes, strict=False):
        draw(panel, summary)
        panel.set_axisbelow(True)
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    return figure
