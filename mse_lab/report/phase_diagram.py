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
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mse_lab.arrays import Floats, divide
from mse_lab.console import COMMAND_PREFIX
from mse_lab.errors import InputError, shorten
from mse_lab.formatting import number
from mse_lab.mse.moments import Moments
from mse_lab.mse.regime import (
    aggregate_place,
    baseline_at,
    equal_baseline,
    oracle_gain,
)
from mse_lab.report.drawing import MOST_DOTS, colours_of, ink, legend_above
from mse_lab.results.finished_run import read_probe, read_tables
from mse_lab.results.tables import MOMENTS, RHO, restore_moments

# Group sizes of the lines where GRPO-type equals vanilla; from 64 on it is the oracle's.
CROSSED_SIZES = (4, 8)

# Square points of a dot that is the whole difference, and of the least dot.
_AREA, _LEAST_AREA = 7000.0, 3.0

_CAPTION = (
    "A dot is a prompt, its area its part in vanilla's MSE less the oracle's; "
    "a cross is a run"
)

_LONGEST_LABEL = 40


class Dots(NamedTuple):
    """The prompts of a run."""

    label: str  # Names the run.
    moments: Moments  # Moments of each prompt.
    # b* with its interval, rows of (value, low, high); NaN where unknown.
    baselines: Floats

    @property
    def binary(self) -> bool:
        """Whether rewards are 0 and 1: for values in between E[Z^2] is less than V."""
        moments = self.moments
        mean_square = moments.variance - moments.value_variance + moments.value**2
        return bool(np.allclose(mean_square, moments.value, rtol=1e-6, atol=1e-9))

    @property
    def gain_shares(self) -> Floats:
        """What each prompt adds to the run's (vanilla - oracle) / (vanilla + oracle)."""
        gain, oracle = oracle_gain(self.moments), self.moments.trace_oracle
        return divide(gain, (gain + 2 * oracle).sum())

    def describe(self) -> str:
        """Set vanilla's MSE in proportion to the oracle's, by the sums over prompts."""
        gain, oracle = oracle_gain(self.moments).sum(), self.moments.trace_oracle.sum()
        if oracle <= 0:
            return "the oracle has no measurable noise"
        return f"vanilla {number(float(1 + gain / oracle))} × oracle"


def as_dots(label: str, prompts: pd.DataFrame, moments: Moments) -> Dots:
    """Take the prompts of a run from its table, and their moments."""
    measured = baseline_at(prompts[[*RHO]].to_numpy(float), moments.value[:, None])
    # Where rho is unknown b* has no interval.
    otherwise = moments.best_baseline[:, None] * [1, math.nan, math.nan]
    baselines = np.where(np.isnan(measured), otherwise, measured)
    return Dots(label, moments, baselines)


def read_dots(folders: Sequence[Path]) -> list[Dots]:
    """Read the prompts of runs from their tables."""
    dots = []
    for folder in folders:
        run = read_tables(folder)
        if lost := [one for one in (*MOMENTS, *RHO) if one not in run.prompts]:
            raise InputError(
                f"{folder}: prompts.csv lacks {lost[0]}; make it again with "
                f"{COMMAND_PREFIX} run {run.name} --fresh"
            )
        moments = restore_moments(run.prompts, read_probe(folder).pool.reference)
        dots.append(as_dots(shorten(run.name, _LONGEST_LABEL), run.prompts, moments))
    return dots


def _draw_lines(axes: Axes, ends: Floats) -> None:
    axes.plot(ends, ends, color=ink(0.55), lw=0.8, ls=(0, (4, 2)), zorder=1)
    axes.plot(ends, ends / 2, color=ink(0.85), lw=1.3, zorder=2)


def _draw_dots(axes: Axes, dots: Dots, colour: str, *, alone: bool) -> None:
    """Draw a run's prompts; their intervals, which hide other dots, of a single run."""
    value, (best, low, high) = dots.moments.value, dots.baselines.T
    areas = _AREA * abs(dots.gain_shares) + _LEAST_AREA
    if alone:
        axes.vlines(value, low, high, color=colour, lw=0.5, alpha=0.35, zorder=2)
    drawn = axes.scatter(
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
    drawn.set_rasterized(len(value) > MOST_DOTS)
    axes.plot(
        *aggregate_place(dots.moments),
        "P",
        color=colour,
        ms=9,
        mec=ink(1),
        zorder=5,
        ls="",
        label=f"{dots.label}: {dots.describe()}",
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


def compose_phase(runs: Sequence[Dots]) -> Figure:
    """Compose the diagram, with the order of each run's MSEs in the legend."""
    figure = Figure(figsize=(5, 4.6 + 0.2 * len(runs)), layout="constrained")
    axes = figure.subplots()
    if all(dots.binary for dots in runs):
        _draw_unit_square(axes)
    else:
        values = np.concatenate([[0.0], *(dots.moments.value for dots in runs)])
        _draw_lines(axes, np.array([values.min(), values.max()]))
    for dots, colour in zip(runs, colours_of(len(runs)), strict=True):
        _draw_dots(axes, dots, colour, alone=len(runs) == 1)
    axes.set(xlabel="Value V of a prompt", ylabel="Its best constant baseline b*")
    figure.supxlabel(_CAPTION, fontsize=7.5, color=ink(0.65))
    legend_above(figure, 1, fontsize=8, title="MSE of a run", title_fontsize=8)
    return figure
