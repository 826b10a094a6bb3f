"""The allocation's figure: the best completions for each prompt against its value.

Beside it the rules that people use, which know its value at most. Completions that do not
go round leave prompts of one kind one apart; the filter's curve is the mean of its kind.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mse_lab.answers.allocation import Allocation
from mse_lab.arrays import Floats
from mse_lab.mse.allocation import FILTERED, UNIFORM, is_outside
from mse_lab.report.drawing import (
    MOST_DOTS,
    STYLES,
    label_plainly,
    legend_above,
)

_DOT: dict[str, Any] = {"ms": 4.5, "mec": "white", "mew": 0.4, "alpha": 0.8}


def _filter_curve(allocation: Allocation, grid: Floats) -> Floats:
    """Mean size inside the accuracy filter and outside."""
    sizes, outside = allocation.sizes[FILTERED], is_outside(np.array(allocation.values))
    parts = [sizes[outside == side] for side in (False, True)]
    inside, beyond = (part.mean() if part.size else np.nan for part in parts)
    return np.where(is_outside(grid), beyond, inside)


def _draw_curves(axes: Axes, allocation: Allocation) -> None:
    values, order = (
        np.array(allocation.values),
        np.argsort(allocation.values, kind="stable"),
    )
    grid = np.linspace(values.min(), values.max(), 400)
    mean = np.full_like(grid, allocation.sizes[UNIFORM].mean())
    axes.plot(grid, mean, "-", color="0.6", lw=1.1, label="The same for all")
    [line] = axes.plot(values[order], allocation.sizes["reward variance"][order], "--",
                       color="0.1", lw=1.1, label="By p(1-p)")  # fmt: skip
    line.set_drawstyle("steps-mid")
    if FILTERED in allocation.sizes:
        filtered = _filter_curve(allocation, grid)
        axes.plot(grid, filtered, ":", color="0.1", lw=1.1, label="Accuracy filter")


def _draw_dots(axes: Axes, allocation: Allocation) -> None:
    sizes, colour = allocation.sizes["best"], STYLES["grpo"].colour
    [line] = axes.plot(allocation.values, sizes, "o", color=colour, label="Best", **_DOT)
    line.set_clip_on(False)
    line.set_rasterized(len(sizes) > MOST_DOTS)


def compose_allocation(allocation: Allocation) -> Figure:
    """Compose the sizes of every prompt against its value."""
    figure = Figure(figsize=(4.2, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel="Value V of a prompt", ylabel="Completions")
    if 0 <= min(allocation.values) <= max(allocation.values) <= 1:
        axes.set_xlim(0, 1)
    axes.set_yscale("log", base=2)
    _draw_curves(axes, allocation)
    _draw_dots(axes, allocation)
    label_plainly(axes.yaxis)
    title = f"{allocation.budget:,} completions for {len(allocation.prompts):,} prompts"
    legend_above(figure, 2, title=title, fontsize=8.5, title_fontsize=9)
    return figure
