"""`mse-lab along`: what changes along a training run."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from mse_lab.commands.command_line import ROOT, Parser, group_size, load_probes
from mse_lab.commands.run import in_processes
from mse_lab.console import show_status

if TYPE_CHECKING:
    from mse_lab.run.along import Stage
    from mse_lab.run.processes import Processes

HELP = "what changes along a training run"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_probe("probe")
    help = "folders, or a pattern of them: 'out/checkpoint-*'"
    parser.add_argument("--checkpoints", nargs="+", required=True, metavar="DIR", help=help)
    help = "put the probe's own model first, as step 0"
    parser.add_argument("--from-start", action="store_true", help=help)
    help = "group size of the training run, by default 8, TRL's"
    parser.add_argument("--group-size", type=group_size, default=8, metavar="G", help=help)
    parser.add_options("--fresh", "--set", "--out")


def execute(arguments: Namespace) -> int:
    """Measure a probe along a training run; 1 if a built-in check failed."""
    return in_processes(measure_checkpoints, arguments)


def measure_checkpoints(arguments: Namespace, processes: Processes) -> int:
    """Measure a probe at every checkpoint, in one of the processes that share it."""
    from mse_lab.probe.trained_checkpoints import find_checkpoints

    [(name, probe)] = load_probes([arguments.probe], arguments.set)
    checkpoints = find_checkpoints(arguments.checkpoints, from_start=arguments.from_start)
    if processes.first:
        show_status(f"{name}: loading torch and the model")
    from mse_lab.answers.along import Along, refuse_beforehand
    from mse_lab.answers.measured_run import read_run
    from mse_lab.report.along_report import write_along
    from mse_lab.results.checks import none_failed
    from mse_lab.run.along import ALONG, measure_along
    from mse_lab.run.prepare import prepare

    refuse_beforehand(len(checkpoints), arguments.group_size, probe.pool)
    folder = arguments.out / name
    stages = measure_along(
        prepare(name, probe, folder, ROOT, processes),
        checkpoints,
        fresh=arguments.fresh,
        finished=announce if processes.first else lambda stage: None,
    )
    if processes.first:
        # Differences between checkpoints are of prompts drawn from a distribution.
        runs = tuple(
            replace(read_run(stage.folder), drawn_from="like-these") for stage in stages
        )
        steps = tuple(stage.step for stage in stages)
        show_status()
        print(write_along(Along(steps, runs, arguments.group_size), folder / ALONG))
    return int(not all(none_failed(stage.outcome.checks) for stage in stages))


def announce(stage: Stage) -> None:
    """Print that a checkpoint is measured, its checks and its warnings."""
    from mse_lab.results.checks import summary

    show_status()
    state = "finished before" if stage.outcome.finished_before else "measured"
    print(f"{stage.folder}: {state}; {summary(stage.outcome.checks)}")
    for warning in stage.outcome.warnings:
        print(f"warning: {warning}")
