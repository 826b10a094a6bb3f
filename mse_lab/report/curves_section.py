"""The curves on the page: Figure 4, drawn run by run for a phone, and paired ratios."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.mse.curves import paired_ratio
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.replicates import Key
from mse_lab.report.drawing import STYLES
from mse_lab.report.figure_4 import draw_panel
from mse_lab.report.inline_svg import Drawing, inline_panel
from mse_lab.results.finished_run import read_tables
from mse_lab.words import number

_LEGEND: dict[str, Any] = {"columnspacing": 1, "handletextpad": 0.3, "handlelength": 1.4}

PAIRS = {
    "GRPO-type / oracle": ("grpo", "oracle"),
    "Vanilla / oracle": ("vanilla", "oracle"),
    "Best constant / oracle": ("best-constant", "oracle"),
    "GRPO-type / vanilla": ("grpo", "vanilla"),
}


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


def draw_curves(sources: Sequence[FinishedRun]) -> dict[str, list[tuple[str, Drawing]]]:
    """Draw the curves of every run: `drawings`, (run's name, drawing)."""
    drawings = []
    for source in sources:
        draw = partial(_draw, folder=source.folder)
        drawing = inline_panel(draw, f"mse-{source.key}", _alt(source), **_LEGEND)
        drawings.append((source.name, drawing))
    return {"drawings": drawings}


def _ratios(source: FinishedRun, size: int) -> list[list[Estimate | None]]:
    """Of each pair the ratio as measured, and by law; None where it cannot be had."""
    pairs = ([source.compared[Key(name, size)] for name in pair] for pair in PAIRS.values())
    return [
        [paired_ratio(*curves, source.level) for curves in zip(top, bottom, strict=True)]
        for top, bottom in pairs
    ]


def compare_pairs(sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Work out the ratios: `pairs`, their names; `runs`, (run, group size -> ratios)."""
    runs = [(one, {size: _ratios(one, size) for size in one.sizes}) for one in sources]
    return {"pairs": list(PAIRS), "runs": runs}
