"""Along a training run in words and files: the screen, the tables, the figure."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mse_lab.answers.along import Along
from mse_lab.answers.claims import claims_table
from mse_lab.formatting import NONE, share, times, with_interval
from mse_lab.report.along_figure import draw_along
from mse_lab.report.claims_report import SHOWN, WIDTH
from mse_lab.report.layout import lay_out
from mse_lab.results.files import write_table, write_text


def _say(along: Along) -> Iterator[str]:
    """Say which group size was best for all of the run, and what another one costs."""
    best, whole, level = along.best, along.trajectory, along.level
    if math.isnan(best.value):
        yield "No best group size: no reward varies."
        return
    cost = whole.cost(along.group_size, level)
    saved = whole.saved_by_switching(level)
    yield f"Best over the checkpoints, each alike: G* = {with_interval(best)}."
    yield (
        f"G = {along.group_size} takes {times(cost)} the completions of the "
        "best size all along."
    )
    low, high = (share(end) for end in saved[1:])
    yield (
        f"The best size at each checkpoint would save {share(saved.value)} ({low} to "
        f"{high}) of the completions over the best of one size."
    )


def _rows(along: Along) -> list[dict[str, Any]]:
    """Give the columns of each checkpoint, and G* in words."""
    rows: list[dict[str, Any]] = along.table.to_dict("records")
    for row, run in zip(rows, along.runs, strict=True):
        best = run.best_group_size
        row["best"] = NONE if math.isnan(best.value) else with_interval(best)
    return rows


def along_text(along: Along) -> str:
    """Say it on one screen."""
    return lay_out(
        "along.txt",
        along=along,
        name=along.runs[0].name.partition("/along/")[0],
        prompts=along.runs[0].pools.prompts,
        rows=_rows(along),
        sentences=list(_say(along)),
        shown=SHOWN,
        width=WIDTH,
    )


def write_along(along: Along, folder: Path) -> str:
    """Write tables, screen and figure into a folder; return the screen.

    Raises:
        InputError: The folder cannot be written.
    """
    text = along_text(along)
    write_table(folder / "along.csv", along.table)
    write_table(folder / "claims.csv", claims_table(along.claims))
    write_text(folder / "along.txt", text)
    for suffix in (".png", ".pdf"):
        draw_along(along.table, along.best, folder / f"along{suffix}")
    return (
        f"{text}Written to {folder}:\n  along.csv, claims.csv, along.txt, along.png, .pdf"
    )
