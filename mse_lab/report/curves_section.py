"""The curves on the page: Figure 4, drawn run by run for a phone, and paired ratios."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.formatting import number
from mse_lab.mse.curves import paired_ratio
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.replicates import Key
from mse_lab.report.drawing import STYLES
from mse_lab.report.figure_4 import compose, scales_of
from mse_lab.report.inline_svg import Drawing, inline
from mse_lab.results.finished_run import Tables, read_tables

PAIRS = {
    "GRPO-type / oracle": ("grpo", "oracle"),
    "Vanilla / oracle": ("vanilla", "oracle"),
    "Best constant / oracle": ("best-constant", "oracle"),
    "GRPO-type / vanilla": ("grpo", "vanilla"),
}


def _alt(source: FinishedRun, tables: Tables) -> str:
    """Tell each curve by its ends."""
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


def draw_curves(sources: Sequence[FinishedRun]) -> dict[str, list[tuple[str, Drawing]]]:
    """Draw the curves of every run, on common scales: `drawings`, (run's name, drawing)."""
    runs = [read_tables(source.folder) for source in sources]
    scales, drawings = scales_of(runs), []
    for source, run in zip(sources, runs, strict=True):
        draw = partial(compose, [run], scales=scales)
        drawings.append((source.name, inline(draw, f"mse-{source.key}", _alt(source, run))))
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
