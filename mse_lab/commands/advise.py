"""`mse-lab advise`: which group size and baseline suit a model and prompts.

The advice is read off a finished run; without one the probe is measured until the answer is
known.
"""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mse_lab.commands.command_line import (
    RESULTS,
    ROOT,
    Parser,
    any_group_size,
    completions,
    find_run,
    group_sizes,
    load_probes,
    output_folder,
    seconds,
    share_of,
)
from mse_lab.commands.run import in_processes
from mse_lab.console import show_status
from mse_lab.errors import InputError

if TYPE_CHECKING:
    from mse_lab.answers.alternatives import Seconds
    from mse_lab.probe.values import Training
    from mse_lab.run.processes import Processes

HELP = "which group size, which baseline"

# The files of a run's folder that its advice is made from.
SOURCES = ("pools.npz", "advice.json")


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_probe("name", help="a probe's name or .yaml file, or a folder of results")
    help = "group sizes to price, such as 8,16"
    parser.add_argument("--at", type=group_sizes, default=[], metavar="G,...", help=help)
    help = (
        "the most completions drawn in all; of a finished run those that errors are stated "
        "for, by default 1024"
    )
    parser.add_argument("--budget", type=completions, metavar="N", help=help)
    help = "measure until the size costs at most this share above the best, default 0.05"
    parser.add_argument("--regret", type=share_of, metavar="SHARE", help=help)
    help = "what you train with; by default the probe's, else TRL with its defaults"
    parser.add_argument("--trainer", choices=("trl", "verl", "openrlhf"), help=help)
    help = "the group size that you train with"
    parser.add_argument("--G", type=any_group_size, metavar="SIZE", help=help)
    help = "the trainer's settings: YAML, JSON or the text of a command line"
    parser.add_argument("--config", type=Path, metavar="FILE", help=help)
    help = "what a completion takes, for prices in time"
    parser.add_argument("--seconds-per-completion", type=seconds, metavar="S", help=help)
    help = "what a prompt takes once, whatever the group size"
    parser.add_argument("--seconds-per-prompt", type=seconds, metavar="S", help=help)
    parser.add_options("--fresh", "--set", "--out", "--json")


def _training(arguments: Namespace, of_probe: Training | None) -> Training | None:
    """Read what the user trains with: the arguments, over the probe's."""
    from mse_lab.probe.training import TRAINERS
    from mse_lab.probe.values import Training

    trainer, size, config = arguments.trainer, arguments.G, arguments.config
    if config is not None and trainer is None and of_probe is None:
        raise InputError("--config: whose? give --trainer trl, verl or openrlhf, too")
    if trainer is None and size is None and config is None:
        return of_probe
    same = of_probe is not None and trainer in (None, of_probe.trainer)
    values = of_probe.model_dump() if same and of_probe else {"trainer": trainer or "trl"}
    values |= {} if config is None else {"config": str(config)}
    if size is not None:
        values[TRAINERS[values["trainer"]].size] = size
    return Training(**values)


def _seconds(arguments: Namespace) -> Seconds | None:
    """Read what training takes."""
    from mse_lab.answers.alternatives import Seconds

    each, once = arguments.seconds_per_completion, arguments.seconds_per_prompt
    if each is None and once is not None:
        raise InputError("--seconds-per-prompt: give --seconds-per-completion, too")
    return None if each is None else Seconds(each, once or 0.0)


def _find_probe(name: str, run: Path) -> str | None:
    """Name a probe's results; None if the name is a run whose probe is not there."""
    from mse_lab.probe.probe_files import probe_file, probe_name

    try:
        return probe_name(probe_file(name, ROOT), ROOT)
    except InputError:
        if run.exists():
            return None
        raise


def find_standing(arguments: Namespace) -> Path | None:
    """Find the finished run that is asked about; None where a probe is to be measured."""
    run = find_run(arguments.name)
    probe = _find_probe(arguments.name, run)
    if probe is not None and arguments.out != RESULTS:
        run = arguments.out / probe
    settled = not (arguments.fresh or arguments.set or arguments.regret is not None)
    stands = settled and any((run / source).exists() for source in SOURCES)
    return run if stands or probe is None else None


def execute(arguments: Namespace) -> int:
    """Print and write the advice, measured first if need be."""
    run = find_standing(arguments)
    if run is None:
        return in_processes(measure, arguments)
    from mse_lab.mse.verdict import BUDGET
    from mse_lab.probe.training import find_setting
    from mse_lab.report.advice_files import advise_run

    of_probe = None  # As it is now: it may have changed since the run.
    if _find_probe(arguments.name, run) is not None:
        [(_, probe)] = load_probes([arguments.name], [])
        of_probe = probe.training
    training = _training(arguments, of_probe)
    text = advise_run(
        run,
        arguments.at,
        arguments.budget or BUDGET,
        output_folder(run),
        setting=None if training is None else find_setting(training),
        seconds=_seconds(arguments),
        as_json=arguments.json,
    )
    print(text)
    return 0


def measure(arguments: Namespace, processes: Processes) -> int:
    """Measure until the answer is known, in one of the processes; 1 if a check failed."""
    [(name, probe)] = load_probes([arguments.name], arguments.set)
    training = _training(arguments, probe.training)
    probe = probe.model_copy(update={"training": training})
    seconds_each = _seconds(arguments)
    if processes.first:
        show_status(f"{name}: loading torch and the model")
    from mse_lab.measurement.looks import COMPLETIONS
    from mse_lab.mse.regret import TOLERANCE
    from mse_lab.mse.verdict import Question, decide
    from mse_lab.probe.training import find_setting
    from mse_lab.report.advice_files import as_run, write_sampled_advice
    from mse_lab.results.checks import none_failed
    from mse_lab.run.advise import ADVICE, sample_probe
    from mse_lab.run.prepare import prepare

    folder, level = arguments.out / name / ADVICE, probe.interval.level
    regret, setting = arguments.regret or TOLERANCE, find_setting(training)
    question = Question(setting.estimator, setting.group_size, regret, level)
    spec = prepare(name, probe, folder, ROOT, processes)
    ended = sample_probe(
        spec,
        partial(decide, question=question, awaited=COMPLETIONS),
        budget=arguments.budget,
        fresh=arguments.fresh,
    )
    if not processes.first:
        return 0
    show_status()
    held = none_failed(ended.checks)
    run = as_run(
        name, probe, ended.prompts, ended.stopped, regret,
        held=held, told=tuple(ended.warnings),
        size=probe.prompts.population_size(len(spec.prompts)),
    )  # fmt: skip
    text = write_sampled_advice(
        run,
        ended.decision,
        arguments.at,
        folder,
        seconds_each,
        as_json=arguments.json,
    )
    print(text)
    return int(not held)
