"""Advise from a finished run, and write the advice beside it."""

from dataclasses import replace
from pathlib import Path

from mse_lab.answers.advice import advise
from mse_lab.errors import InputError
from mse_lab.report.advice_figure import draw_advice
from mse_lab.report.advice_text import advice_table, advice_text
from mse_lab.results.files import write_table, write_text
from mse_lab.results.finished_run import read_result
from mse_lab.results.records import Record


def _warning(record: Record) -> str:
    if not record.read_checks().ok:
        return "A BUILT-IN CHECK OF THIS RUN FAILED; do not rely on these numbers."
    return ""


def advise_run(folder: Path) -> str:
    """Advise from a finished run; write `advice.md`, `.csv`, `.png` and `.pdf` beside it.

    Returns:
        The advice in words, as in `advice.md`.

    Raises:
        InputError: The folder has no pools, or they are too few to advise from.
    """
    result, record = read_result(folder), Record(folder)
    try:
        advice = replace(advise(result), warning=_warning(record))
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    text = advice_text(advice)
    write_text(record.path("advice.md"), f"```text\n{text}```\n")
    write_table(record.path("advice.csv"), advice_table(advice))
    for suffix in (".png", ".pdf"):
        draw_advice(advice, record.path(f"advice{suffix}"))
    return text
