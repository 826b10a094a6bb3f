"""The curves on the page: Figure 4, drawn run by run for a phone, and paired ratios."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from mse_lab.answers.measured_run import FinishedRun
from mse_lab.formatting import number
from mse_lab.mse.curves import paired_ratio
from mse_lab.mse.replicates import Key
from mse_lab.report.drawing import STYLES
from mse_lab.report.figure_4 import compose, scales_of
from mse_lab.report.layout import Image, Table, draw_image, estimate_cell
from mse_lab.results.finished_run import Tables, read_tables

PAIRS = {
    "GRPO-type / oracle": ("grpo", "oracle"),
    "Vanilla / oracle": ("vanilla", "oracle"),
    "Best constant / oracle": ("best-constant", "oracle"),
    "GRPO-type / vanilla": ("grpo", "vanilla"),
}


def _alt(source: FinishedRun, tables: Tables) -> str:
    """Describe each curve by its ends."""
    column, by_law = ("law", ", by the law") if tables.law_only else ("mse", "")
    curves = []
    for name, curve in tables.mse.groupby("estimator", sort=False):
        label = STYLES[str(name)].label if name in STYLES else name
        first, last = (
            f"{number(end[column])} at G = {end['group_size']}"
            for end in (curve.iloc[0], curve.iloc[-1])
        )
        curves.append(f"{label} {first} and {last}")
    return f"MSE against group size{by_law}, {source.name}: {'; '.join(curves)}"


def draw_curves(sources: Sequence[FinishedRun]) -> dict[str, list[tuple[str, Image]]]:
    """Draw the curves of every run, on common scales: `images`, (run's name, image)."""
    runs = [read_tables(source.folder) for source in sources]
    scales, images = scales_of(runs), []
    for source, run in zip(sources, runs, strict=True):
        draw = partial(compose, [run], scales=scales)
        images.append((source.name, draw_image(draw, _alt(source, run))))
    return {"images": images}


def _ratios(source: FinishedRun, size: int) -> list[str]:
    """Write each pair's ratio as measured, where there are replicates, and by the law."""
    cells = []
    for names in PAIRS.values():
        tops, bottoms = (source.compared[Key(name, size)] for name in names)
        pairs = zip(tops, bottoms, strict=True)
        measured, law = (paired_ratio(*curves, source.level) for curves in pairs)
        shown = [law] if source.law_only else [measured, law]
        cells += [estimate_cell(ratio) for ratio in shown]
    return cells


def compare_pairs(sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Work out the ratios: `runs`, each with the table of its ratios by group size."""
    runs = []
    for source in sources:
        heads = ["G"]
        for pair in PAIRS:
            heads += [f"{pair}, law"] if source.law_only else [pair, "law"]
        rows = [[str(size), *_ratios(source, size)] for size in source.sizes]
        runs.append((source, Table(heads, rows)))
    return {"runs": runs}
