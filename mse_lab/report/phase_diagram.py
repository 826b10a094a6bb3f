"""The phase diagram: on which side of vanilla each prompt is, and each run.

A dot a prompt: its value V across, its best constant baseline b* upward. Vanilla's baseline
is 0 and the oracle's V, so vanilla has the larger MSE where b* is nearer to V: above the
line b* = V/2, whatever the rewards. For rewards 0 and 1 GRPO-type at G equals vanilla on a
straight line, too. A dot's area is what the prompt adds to the difference of the run's two
MSEs, in units of their sum: the areas above the line less those below are the difference
itself, and the run's cross lies on that side of the line.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mse_lab.arrays import Floats
from mse_lab.formatting import number
from mse_lab.mse.regime import (
    aggregate_place,
    equal_baseline,
    gain_shares,
    measured_baselines,
)
from mse_lab.report.drawing import colours_of, ink, legend_above
from mse_lab.results.analysis import RHO, Analysis

# Group sizes of the lines where GRPO-type equals vanilla; from 64 on it is the oracle's.
CROSSED_SIZES = (4, 8)

# Square points of a dot that is the whole difference, and of the least dot.
_AREA, _LEAST_AREA = 7000.0, 3.0

_CAPTION = (
    "A dot is a prompt, its area its part in vanilla's MSE less the oracle's; "
    "a cross is a run"
)


def _label(run: Analysis) -> str:
    """Name a run, and set vanilla's MSE in proportion to the oracle's, over its prompts."""
    share = float(gain_shares(run.moments).sum())
    said = "the oracle has no measurable noise"
    if abs(share) < 1:
        said = f"vanilla {number((1 + share) / (1 - share))} × oracle"
    return f"{run.name}: {said}"


def _draw_lines(axes: Axes, ends: Floats) -> None:
    axes.plot(ends, ends, color=ink(0.55), lw=0.8, ls=(0, (4, 2)), zorder=1)
    axes.plot(ends, ends / 2, color=ink(0.85), lw=1.3, zorder=2)


def _draw_dots(axes: Axes, run: Analysis, colour: str, *, alone: bool) -> None:
    """Draw a run's prompts; their intervals, which hide other dots, of a single run."""
    moments = run.moments
    ratios_P3 = run.prompts[[*RHO]].to_numpy(float)
    value, (best, low, high) = moments.value, measured_baselines(moments, ratios_P3).T
    areas = _AREA * abs(gain_shares(moments)) + _LEAST_AREA
    if alone:
        axes.vlines(value, low, high, color=colour, lw=0.5, alpha=0.35, zorder=2)
    axes.scatter(
        value,
        best,
        areas,
        colour,
        alpha=0.75,
        lw=0.4,
        edgecolor=ink(0),
        zorder=3,
        clip_on=False,
    )
    axes.plot(
        *aggregate_place(moments),
        "P",
        color=colour,
        ms=9,
        mec=ink(1),
        zorder=5,
        ls="",
        label=_label(run),
    )


def _write(
    axes: Axes, point: tuple[float, float], text: str, slope: float = 0.0, **settings: Any
) -> None:
    """Write into the unit square, along a line of a slope, legibly above dots."""
    angle = math.degrees(math.atan(slope))
    behind = {"facecolor": ink(0), "alpha": 0.7, "edgecolor": "none", "pad": 0.4}
    axes.annotate(
        text,
        point,
        (0, 2),
        textcoords="offset points",
        rotation_mode="anchor",
        rotation=angle,
        fontsize=7.5,
        color=ink(0.85),
        bbox=behind,
        zorder=6,
        annotation_clip=False,
        **settings,
    )


def _draw_unit_square(axes: Axes) -> None:
    """Draw the lines of rewards 0 and 1, and say in words what they separate."""
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    _draw_lines(axes, np.array([0.0, 1.0]))
    words = "vanilla has the largest MSE:\nthe paper's picture"
    _write(axes, (0.02, 0.97), words, va="top")
    _write(axes, (0.99, 0.01), "vanilla has the smallest MSE", ha="right")
    _write(axes, (0.44, 0.44), "b* = V (ρ = 1): Assumption 2", 1.0)
    _write(axes, (1.01, 0.43), "b* = V/2:\nvanilla =\noracle;\ndotted:\nGRPO-type")
    for size in CROSSED_SIZES:
        left, right = equal_baseline(np.array([0.0, 1.0]), size)
        axes.plot([0, 1], [left, right], color=ink(0.85), lw=0.7, ls=":", zorder=1)
        _write(axes, (0.01, left), f"G = {size}", right - left)


def compose_phase(runs: Sequence[Analysis]) -> Figure:
    """Compose the diagram, with the order of each run's MSEs in the legend."""
    figure = Figure(figsize=(5, 4.6 + 0.2 * len(runs)), layout="constrained")
    axes = figure.subplots()
    if all(run.pools.binary for run in runs):
        _draw_unit_square(axes)
    else:
        values = np.concatenate([[0.0], *(run.moments.value for run in runs)])
        _draw_lines(axes, np.array([values.min(), values.max()]))
    for run, colour in zip(runs, colours_of(len(runs)), strict=True):
        _draw_dots(axes, run, colour, alone=len(runs) == 1)
    axes.set(xlabel="Value V of a prompt", ylabel="Its best constant baseline b*")
    figure.supxlabel(_CAPTION, fontsize=7.5, color=ink(0.65))
    legend_above(figure, 1, fontsize=8, title="MSE of a run", title_fontsize=8)
    return figure
