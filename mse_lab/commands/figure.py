"""`mse-lab figure`: Figure 4 from finished runs, what explains it, or a run's ladder."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mse_lab.commands.command_line import (
    Parser,
    compare_runs,
    existing_runs,
    output_folder,
    say_changes,
)
from mse_lab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mse_lab.report.drawing import Figure

HELP = "Figure 4 from finished runs"

# The runs that are drawn by default.
FIGURE_4_RUNS = ("tiny/base", "tiny/instruct", "tiny/icl")


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add("runs", nargs="*")
    parser.add_file(".png, .pdf or .svg")
    help = "instead of Figure 4, on which prompts a baseline near the value helps"
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--phase", action="store_true", help=help)
    help = "instead of Figure 4, what the rows of a run's ladder save, over N"
    kinds.add_argument("--ladder", action="store_true", help=help)
    parser.add_argument("--dark", action="store_true", help="light on a dark ground")


def _compose(kind: str, folders: Sequence[Path]) -> Figure:
    from mse_lab.answers.advice_evidence import evidence_of_run
    from mse_lab.answers.ladder import Ladder
    from mse_lab.report.figure_4 import compose
    from mse_lab.report.ladder_figure import compose_ladder
    from mse_lab.report.phase_diagram import compose_phase
    from mse_lab.results.finished_run import read_run, read_tables

    if kind == "ladder":
        if len(folders) != 1:
            raise InputError("--ladder: give one run, whose ladder is drawn")
        run = read_run(folders[0])
        return compose_ladder(Ladder(evidence_of_run(run, run.setting)))
    if kind == "phase":
        return compose_phase([read_run(folder) for folder in folders])
    return compose([read_tables(folder) for folder in folders])


def execute(arguments: Namespace) -> int:
    """Draw the figure."""
    from mse_lab.report.drawing import save_figure

    names = arguments.runs or FIGURE_4_RUNS
    folders = existing_runs(names)
    kind = "phase" if arguments.phase else "ladder" if arguments.ladder else "figure4"
    # Figures of a user's runs lie in the folder of the first one.
    stem = (output_folder(folders[0]) if arguments.runs else Path("figures")) / kind
    files = [Path(f"{stem}.png"), Path(f"{stem}.pdf")]
    outputs = [arguments.out] if arguments.out else files
    for output in outputs:
        save_figure(partial(_compose, kind, folders), output, dark=arguments.dark)
    say_changes(compare_runs(folders, names))
    print(*(f"{output} written" for output in outputs), sep="\n")
    if not arguments.runs:
        print(
            f"of {', '.join(FIGURE_4_RUNS)} in {folders[0].parents[1]}; RUN... draws others"
        )
    return 0
