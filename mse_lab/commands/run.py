"""`mse-lab run`: measure a probe."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mse_lab.commands.command_line import RESULTS, Parser, load_probes
from mse_lab.console import COMMAND_PREFIX, complain, show_status, started_by_torchrun

if TYPE_CHECKING:
    from mse_lab.run.processes import Processes
    from mse_lab.run.run_probe import Outcome

HELP = "one measurement per probe"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    help = "tiny/base, or a .yaml file"
    parser.add_argument("probes", nargs="+", metavar="PROBE", help=help)
    parser.add("--set", "--out", "--fresh")


def execute(arguments: Namespace) -> int:
    """Measure each probe; 1 if a built-in check failed."""
    return in_processes(measure_probes, arguments)


def in_processes(work: Callable[[Namespace, Processes], int], arguments: Namespace) -> int:
    """Measure in this process alone, or in those that torchrun has started."""
    if not started_by_torchrun():
        from mse_lab.run.processes import SINGLE_PROCESS

        return work(arguments, SINGLE_PROCESS)
    from mse_lab.run.torchrun import join

    with join(complain) as processes:
        return work(arguments, processes)


def measure_probes(arguments: Namespace, processes: Processes) -> int:
    """Measure each probe, in one of the processes that share it."""
    from mse_lab.run.subject import prepare

    fresh, out = arguments.fresh, arguments.out
    subjects = [
        prepare(name, probe, out / name, processes=processes, fresh=fresh)
        for name, probe in load_probes(arguments.probes, arguments.set)
    ]
    from mse_lab.run.run_probe import execute_run  # Torch, only now.

    sound = []
    for subject in subjects:
        outcome = execute_run(subject, fresh=fresh)
        sound.append(outcome.noted.ok)
        if processes.first:
            folder = subject.folder.path
            name = subject.name if out == RESULTS else str(folder)
            announce(folder, outcome, name)
    return int(not all(sound))


# What reads a run.
NEXT = ("figure", "advise", "report")


def announce(folder: Path, outcome: Outcome, name: str) -> None:
    """Print how a run ended, and its answer; other commands find the run by `name`."""
    from mse_lab.report.rendering import Part, as_text
    from mse_lab.report.run_screen import describe_completions, ratio_part
    from mse_lab.results.checks import summary
    from mse_lab.results.finished_run import read_tables

    show_status()
    state = "finished before, left as it is (--fresh starts over)"
    if outcome.repaired:
        state = f"{', '.join(outcome.repaired)} made again from pools.npz"
    print(f"{folder}: {state if outcome.finished_before else 'results written'}")
    lines = [
        *(describe_completions(outcome.diagnostics) if outcome.diagnostics else []),
        *(f"warning: {warning}" for warning in outcome.noted.warnings),
        summary(outcome.noted.checks),
    ]
    parts = [Part(sentences=lines), ratio_part(read_tables(folder).mse)]
    print(as_text(parts))
    for begin, command in zip(("next:", "     ", "     "), NEXT, strict=True):
        print(f"{begin} {COMMAND_PREFIX} {command} {shlex.quote(name)}")
    if not outcome.noted.ok:
        complain(f"{folder}: a built-in check FAILED; do not rely on its numbers")
