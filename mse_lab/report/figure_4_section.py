"""Figure 4 on the page: a drawing for each run, so that a phone stacks them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.report.drawing import STYLES
from mse_lab.report.figure_4 import draw_panel
from mse_lab.report.inline_svg import Drawing, inline_panel
from mse_lab.results.finished_run import read_tables
from mse_lab.words import number

_LEGEND: dict[str, Any] = {"columnspacing": 1, "handletextpad": 0.3, "handlelength": 1.4}


def _alt(source: FinishedRun) -> str:
    """Tell each curve by its ends."""
    tables = read_tables(source.folder)
    column, by_law = ("law", ", by the law") if tables.law_only else ("mse", "")
    told = []
    for name, curve in tables.mse.groupby("estimator", sort=False):
        label = STYLES[str(name)].label if name in STYLES else name
        first, last = (
            f"{number(end[column])} at G = {end['group_size']}"
            for end in (curve.iloc[0], curve.iloc[-1])
        )
        told.append(f"{label} {first} and {last}")
    return f"MSE against group size{by_law}, {source.name}: {'; '.join(told)}"


def _draw(axes: Axes, folder: Path) -> None:
    draw_panel(axes, folder)
    axes.set(xlabel="Group size G", ylabel="MSE of the gradient")


def _drawing(source: FinishedRun) -> Drawing:
    draw = partial(_draw, folder=source.folder)
    return inline_panel(draw, f"mse-{source.key}", _alt(source), **_LEGEND)


def draw_curves(sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Draw the curves of every run: `drawings`, (run's name, drawing)."""
    return {"drawings": [(source.name, _drawing(source)) for source in sources]}
