"""The figure along training: held-out J against the step, a curve for each group size.

The form of Figure 5 of arXiv 2603.01162, at N completions a step whatever G. Above, means
over seeds with their intervals, a panel for each step size and one in which each group
size has its own best. Below, at each step a disc marks the group size of the largest mean,
a ring those that are not significantly worse than another.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mse_lab.errors import InputError
from mse_lab.probe.plain_text import parse_yaml, read_text
from mse_lab.probe.probe_files import parse_as
from mse_lab.report.drawing import Style, colours_of, draw_line, save_figure
from mse_lab.studies.training.best_sizes import Curve, regrets
from mse_lab.studies.training.files import StudyFiles
from mse_lab.studies.training.settings import (
    EXAMPLE,
    Study,
    arms_of,
    arms_that_differ_in,
    runs_of,
)
from mse_lab.studies.training.verdict import FEWEST, PROMPTS, curve_of, mean_interval

SHOWN = "held-out"  # Of the sets of prompts that J is measured over.


class Panel(NamedTuple):
    """J at each step at which it was measured, of the seeds that have run at every G."""

    title: str
    curves: dict[int, Curve]


def _curves(study: Study, table: pd.DataFrame, arm: str) -> dict[int, Curve]:
    steps = {
        step: curve_of(table, arm, step, SHOWN) for step in sorted(study.evaluation.steps)
    }
    return {step: curve for step, curve in steps.items() if len(curve.values_SG)}


def join_best(by_eta: dict[float, dict[int, Curve]]) -> dict[int, Curve]:
    """Give each group size the eta whose last J is best; all have the same seeds.

    The same runs choose eta and are drawn, so that the best of many etas looks too good.
    """
    runs = list(by_eta.values())
    steps = list(runs[0])
    values_ETSG = np.array([[curves[step].values_SG for step in steps] for curves in runs])
    best_G = values_ETSG[:, -1].mean(1).argmax(0)
    joined_TSG = np.take_along_axis(values_ETSG, best_G[None, None, None], 0)[0]
    sizes = runs[0][steps[0]].sizes
    return {step: Curve(sizes, joined_TSG[at]) for at, step in enumerate(steps)}


def _of_common_seeds(table: pd.DataFrame, arms: list[str]) -> pd.DataFrame:
    """Keep the seeds that have run at every group size of every arm."""
    rows = table[table["arm"].isin(arms) & table[PROMPTS[SHOWN]].notna()]
    runs = rows.groupby("seed").size()
    return rows[rows["seed"].isin(runs.index[runs == runs.max()])]


def panels_of(study: Study, table: pd.DataFrame) -> list[Panel]:
    """Give a panel to each step size, and one to the best of them.

    Raises:
        InputError: J was not measured on held-out prompts at two steps or more.
    """
    arms = {arm.training.eta: arm.name for arm in arms_that_differ_in(study, "eta")}
    found = {eta: _curves(study, table, name) for eta, name in sorted(arms.items())}
    by_eta = {eta: curves for eta, curves in found.items() if len(curves) > 1}
    if not by_eta:
        raise InputError(
            f"{study.probe}: J on held-out prompts is known at fewer than two steps; set "
            "evaluation.held_out and evaluation.steps, and train again"
        )
    panels = [Panel(f"eta = {eta:g}", curves) for eta, curves in by_eta.items()]
    shared = _of_common_seeds(table, [arms[eta] for eta in by_eta])
    by_eta = {eta: _curves(study, shared, arms[eta]) for eta in by_eta}
    shapes = {
        tuple((step, *curve.sizes) for step, curve in curves.items())
        for curves in by_eta.values()
    }
    if len(by_eta) > 1 and len(shapes) == 1:
        panels.append(Panel("each G with its best eta", join_best(by_eta)))
    return panels


def _draw_curves(axes: Axes, panel: Panel, colours: dict[int, str], level: float) -> None:
    steps = list(panel.curves)
    for size, colour in colours.items():
        values = [
            curve.values_SG[:, curve.sizes == size] for curve in panel.curves.values()
        ]
        if all(each.size for each in values):
            intervals = np.array([mean_interval(each.ravel(), level) for each in values])
            draw_line(axes, steps, intervals, Style(colour, "o", f"G = {size}"))
    seeds = {len(curve.values_SG) for curve in panel.curves.values()}
    axes.set_title(f"{panel.title}, {min(seeds)} seeds")


def _draw_sets(axes: Axes, panel: Panel, colours: dict[int, str], level: float) -> None:
    """Mark at each step the best group size and those that may be as good."""
    rows = {size: row for row, size in enumerate(colours)}
    for step, curve in panel.curves.items():
        if len(curve.values_SG) < FEWEST:
            continue
        chosen = [loss.in_set for loss in regrets(curve, level)]
        for size, inside in zip(curve.sizes.astype(int).tolist(), chosen, strict=True):
            if inside:
                face = colours[size] if size == curve.best else "none"
                mark: dict[str, Any] = {"marker": "o", "ms": 4.5, "mfc": face}
                axes.plot(step, rows[size], color=colours[size], **mark)
    axes.set_yticks(list(rows.values()), [str(size) for size in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("Training step")
    axes.grid(visible=False)


def compose_curves(study: Study, table: pd.DataFrame, start: float | None) -> Figure:
    """Compose the figure; `start` is held-out J before training, drawn dotted."""
    panels, level = panels_of(study, table), study.level
    sizes = sorted({int(size) for panel in panels for curve in panel.curves.values()
                    for size in curve.sizes})  # fmt: skip
    colours = dict(zip(sizes, colours_of(len(sizes), "viridis"), strict=True))
    shape: dict[str, Any] = {"sharex": "col", "sharey": "row", "squeeze": False}
    figure = Figure(figsize=(3.4 * len(panels) + 0.3, 4.8), layout="constrained")
    grid = figure.subplots(2, len(panels), height_ratios=[3, 1], **shape)
    for panel, above, below in zip(panels, *grid, strict=True):
        _draw_curves(above, panel, colours, level)
        if start is not None:
            above.axhline(start, color="0.3", lw=1, ls=":")
        _draw_sets(below, panel, colours, level)
    grid[0, 0].set_ylabel("Mean reward J, held-out prompts")
    grid[1, 0].set_ylabel("G among\nthe best")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    about = [f"{study.probe}, N = {study.budget} completions a step",
             f"means over seeds, {level:.0%} intervals"]  # fmt: skip
    figure.legend(
        handles, labels, loc="outside upper center", ncols=3 * len(panels), frameon=False,
        title=("; " if len(panels) > 1 else "\n").join(about), title_fontsize=8.5,
        fontsize=8.5,
    )  # fmt: skip
    return figure


def draw_curves(folder: Path, output: Path) -> None:
    """Draw what has run of the study in a folder.

    Raises:
        InputError: It holds no study, or J was not measured along training.
    """
    settings = folder / "study.yaml"
    if not settings.is_file():
        raise InputError(f"{folder}: no training study; name the folder of one")
    source = str(settings)
    study = parse_as(Study, parse_yaml(read_text(settings), source), source, EXAMPLE)
    files, arms = StudyFiles(folder), arms_of(study, source)
    table = files.read(list(runs_of(arms)))
    start = files.read_prediction(arms[0]).start if files.has_prediction() else {}
    save_figure(lambda: compose_curves(study, table, start.get(SHOWN)), output)
