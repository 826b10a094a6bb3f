"""The advice of a run, written: files beside the run, and its section of the page."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from mse_lab.answers.advice import BUDGET, CURVE_SIZES, CURVES, TOLERANCE, Advice, advise
from mse_lab.answers.measured_run import FinishedRun, read_run
from mse_lab.answers.trainer_settings import TRAINER_SETTINGS
from mse_lab.errors import InputError
from mse_lab.mse.intervals import Estimate
from mse_lab.report.advice_figure import compose_advice, draw_advice
from mse_lab.report.inline_svg import Drawing, inline
from mse_lab.report.layout import lay_out
from mse_lab.results.files import write_table, write_text
from mse_lab.results.records import Record
from mse_lab.words import NONE, percent, with_interval

# Said of runs with norms only.
LAW_ONLY = "Norms only: by the exact law, which no replicates of this run confirm."

# What the templates of the terminal and of the page share.
_SHARED = {
    "budget": BUDGET,
    "tolerance": f"{100 * TOLERANCE:.0f}",
    "law_only": LAW_ONLY,
    "trainers": TRAINER_SETTINGS,
}


def advice_text(advice: Advice) -> str:
    """Say the advice in words, for a terminal; ends with the trainers' settings."""
    mse = dict(zip(CURVE_SIZES, advice.curves["grpo"], strict=True))
    return lay_out("advice.txt", advice=advice, mse=mse, **_SHARED)


def _columns(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    heads = (name, f"{name}_low", f"{name}_high")
    return dict(zip(heads, estimate or (None, None, None), strict=True))


def advice_table(advice: Advice) -> pd.DataFrame:
    """Make `advice.csv`: a row for each group size, its MSE at the budget.

    Columns: `mse` of GRPO-type; `more_samples_percent`, samples for the same MSE above
    those of the reference size; `silent_share`, groups whose rewards are all equal;
    `vanilla_mse`, `oracle_mse` and `best_constant_mse`.
    """
    rows = []
    for size, more, silent in advice.rows:
        place = CURVE_SIZES.index(size)
        grpo, *others = (advice.curves[name][place] for name in CURVES)
        heads = [f"{name.replace('-', '_')}_mse" for name in CURVES[1:]]
        rows.append(
            {
                "group_size": size,
                "budget": BUDGET,
                **_columns("mse", grpo),
                **_columns("more_samples_percent", Estimate(*(100 * end for end in more))),
                **_columns("silent_share", silent),
                **dict(zip(heads, (other.value for other in others), strict=True)),
            }
        )
    return pd.DataFrame(rows)


def advise_run(folder: Path) -> str:
    """Advise from a run; write `advice.md`, `.csv`, `.png` and `.pdf` beside it.

    Raises:
        InputError: The folder has no pools, or they are too few to advise from.
    """
    run, record = read_run(folder), Record(folder)
    failed = "A BUILT-IN CHECK OF THIS RUN FAILED; do not rely on these numbers."
    try:
        advice = advise(run)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    advice = replace(advice, warning="" if record.read_checks().ok else failed)
    text = advice_text(advice)
    write_text(record.path("advice.md"), f"```text\n{text}```\n")
    write_table(record.path("advice.csv"), advice_table(advice))
    for suffix in (".png", ".pdf"):
        draw_advice(advice, record.path(f"advice{suffix}"))
    return text


def advise_source(source: FinishedRun) -> Advice | str:
    """Work out the advice, or say why there is none."""
    try:
        return advise(source)
    except InputError as error:
        return str(error)


def best_size(advice: Advice | str) -> str:
    """Write G* in a few words."""
    if isinstance(advice, str):
        return NONE
    best = advice.best
    return f"at least {best.low:.1f}" if advice.unbounded else with_interval(best)


def _saved(share: Estimate) -> str:
    """Say how many completions one needs beside another."""
    if share.value < 0:
        return f"{percent((-share.value, -share.high, -share.low))} more"
    return f"{percent(share)} fewer"


def _drawing(source: FinishedRun, advice: Advice | str) -> Drawing | None:
    if isinstance(advice, str):
        return None
    alt = (
        f"MSE against group size at {BUDGET} completions, {source.name}; "
        f"G* {best_size(advice)}"
    )
    return inline(partial(compose_advice, advice), f"advice-{source.key}", alt)


def show_advice(
    sources: Sequence[FinishedRun], advices: Sequence[Advice | str]
) -> dict[str, Any]:
    """Show the advice of every run: `runs`, (run, advice or why none, drawing)."""
    runs = [
        (source, advice, _drawing(source, advice))
        for source, advice in zip(sources, advices, strict=True)
    ]
    return {"runs": runs, "saved": _saved, "best_size": best_size, **_SHARED}
