"""`mse-lab advise`: which group size and baseline suit a model and prompts.

The advice is read off a finished run; without one the probe is measured until the answer is
known. Of several runs, or at the checkpoints of a training, there is a line for each.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mse_lab.commands.command_line import (
    RESULTS,
    ROOT,
    Parser,
    completions,
    find_run,
    group_sizes,
    load_probes,
    output_folder,
    seconds,
    share_of,
)
from mse_lab.commands.run import in_processes
from mse_lab.commands.training_options import add_training, read_training_options
from mse_lab.console import COMMAND_PREFIX, show_status
from mse_lab.errors import InputError

if TYPE_CHECKING:
    from mse_lab.answers.advice import Advice
    from mse_lab.answers.alternatives import Seconds
    from mse_lab.answers.sampled_run import SampledRun
    from mse_lab.mse.verdict import Decision
    from mse_lab.probe.schema import Probe
    from mse_lab.run.processes import Processes

HELP = "which group size, which baseline"

# The files of a run's folder that its advice is made from.
SOURCES = ("pools.npz", "advice.json")


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    help = "a probe's name or .yaml file, or a folder of results; several: a line for each"
    parser.add_probe("names", "+", help=help)
    help = "measure the probe at what a trainer saved, a line each: 'out/checkpoint-*'"
    parser.add_argument("--checkpoints", nargs="+", metavar="DIR", help=help)
    help = "group sizes to price, such as 8,16"
    parser.add_argument("--at", type=group_sizes, default=[], metavar="G,...", help=help)
    help = (
        "the most completions drawn in all; of a finished run those that errors are stated "
        "for, by default 1024"
    )
    parser.add_argument("--budget", type=completions, metavar="N", help=help)
    help = "measure until the size costs at most this share above the best, default 0.05"
    parser.add_argument("--regret", type=share_of, metavar="SHARE", help=help)
    help = "what a completion takes, for prices in time"
    parser.add_argument("--seconds-per-completion", type=seconds, metavar="S", help=help)
    help = "what a prompt takes once, whatever the group size"
    parser.add_argument("--seconds-per-prompt", type=seconds, metavar="S", help=help)
    parser.add_options("--fresh", "--set", "--out", "--json")
    add_training(parser)


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


def _find_results(name: str, arguments: Namespace) -> tuple[Path, bool]:
    """Find the folder of a run, and say whether it is a probe's, which can be measured."""
    run = find_run(name)
    probe = _find_probe(name, run)
    if probe is not None and arguments.out != RESULTS:
        run = arguments.out / probe
    return run, probe is not None


def _stands(run: Path) -> bool:
    return any((run / source).exists() for source in SOURCES)


def _anew(arguments: Namespace) -> bool:
    """Whether to measure what may have been measured before."""
    return arguments.fresh or bool(arguments.set) or arguments.regret is not None


def find_standing(arguments: Namespace) -> Path | None:
    """Find the finished run that is asked about; None where a probe is to be measured."""
    run, measurable = _find_results(arguments.names[0], arguments)
    stands = _stands(run) and not _anew(arguments)
    return run if stands or not measurable else None


def execute(arguments: Namespace) -> int:
    """Print and write the advice, measured first if need be."""
    if arguments.checkpoints:
        return in_processes(measure_checkpoints, arguments)
    if len(arguments.names) > 1:
        return compare(arguments)
    run = find_standing(arguments)
    if run is None:
        return in_processes(measure, arguments)
    _show(arguments, output_folder(run), _read(arguments.names[0], run, arguments))
    return 0


def _show(
    arguments: Namespace, folder: Path, advice: Advice, written: Sequence[str] = ()
) -> None:
    from mse_lab.report.advice_files import write_advice
    from mse_lab.report.advice_table import say_progress

    print(write_advice(folder, advice, as_json=arguments.json, written=written))
    if (count := advice.setting.completions_per_step) and not arguments.json:
        print(say_progress(advice, count))


def _probe_of(run: Path) -> Probe | None:
    """Read the probe that a run is of."""
    from mse_lab.probe.probe_files import load_probe

    path = run / "config.yaml"
    return load_probe(path) if path.is_file() else None


def _read(name: str, run: Path, arguments: Namespace) -> Advice:
    """Advise from a finished run."""
    from mse_lab.mse.verdict import BUDGET
    from mse_lab.probe.training import find_setting
    from mse_lab.report.advice_files import find_advice

    of_probe = None  # As it is now: it may have changed since the run.
    if _find_probe(name, run) is not None:
        [(_, probe)] = load_probes([name], [])
        of_probe = probe.training
    training = read_training_options(arguments, of_probe)
    return find_advice(
        run,
        arguments.at,
        arguments.budget or BUDGET,
        setting=None if training is None else find_setting(training, _probe_of(run)),
        seconds=_seconds(arguments),
    )


def compare(arguments: Namespace) -> int:
    """Print a line for each of several runs, or of what `advise` has measured of them."""
    if _anew(arguments):
        raise InputError(
            "--fresh, --set, --regret: of several runs there is a line each, as they are; "
            "give one, or none of these"
        )
    from mse_lab.results.folder import ADVICE

    advices: dict[str, Advice | str] = {}
    for name in arguments.names:
        run, _ = _find_results(name, arguments)
        found = next(filter(_stands, (run, run / ADVICE)), None)
        if found is None:
            raise InputError(
                f"{run}: no finished run; measure it with {COMMAND_PREFIX} advise {name}"
            )
        advices[name] = _read(name, found, arguments)
    _show_lines(arguments, "run", advices)
    return 0


def _show_lines(arguments: Namespace, what: str, advices: dict[str, Advice | str]) -> None:
    from mse_lab.report.advice_files import screen_width
    from mse_lab.report.advice_table import advice_lines, advice_list

    show_status()
    if arguments.json:
        print(advice_list(what, advices))
    else:
        completions = arguments.completions_per_step
        print(advice_lines(what, advices, completions, screen_width()))


def measure(arguments: Namespace, processes: Processes) -> int:
    """Measure until the answer is known, in one of the processes; 1 if a check failed."""
    from mse_lab.report.advice_files import keep_sampled_advice
    from mse_lab.results.folder import ADVICE

    [(name, probe)] = load_probes(arguments.names, arguments.set)
    folder = arguments.out / name / ADVICE
    sampled = _sample(name, probe, folder, arguments, processes)
    if sampled is None:
        return 0
    show_status()
    advice = keep_sampled_advice(folder, *sampled, arguments.at, _seconds(arguments))
    _show(arguments, folder, advice, written=["advice.json"])
    return int(not advice.held)


def measure_checkpoints(arguments: Namespace, processes: Processes) -> int:
    """Measure a probe at each checkpoint, in its own folder, as `measure` does."""
    from mse_lab.probe.checkpoints import at_checkpoint, find_checkpoints

    if len(arguments.names) > 1:
        raise InputError("--checkpoints: of which probe? give one probe")
    [(name, probe)] = load_probes(arguments.names, arguments.set)
    checkpoints = find_checkpoints(arguments.checkpoints)
    from mse_lab.report.advice_files import keep_sampled_advice

    advices: dict[str, Advice | str] = {}
    for step, path in checkpoints.items():
        label = f"{name}/checkpoints/{path.name}"
        folder, one = arguments.out / label, at_checkpoint(probe, path)
        sampled = _sample(label, one, folder, arguments, processes)
        if sampled is None:
            continue
        try:
            advices[str(step)] = keep_sampled_advice(folder, *sampled, arguments.at)
        except InputError as error:  # Of this step there is no advice; the others go on.
            advices[str(step)] = str(error)
    if processes.first:
        _show_lines(arguments, "step", advices)
    return int(any(not (isinstance(one, str) or one.held) for one in advices.values()))


def _sample(
    name: str, probe: Probe, folder: Path, arguments: Namespace, processes: Processes
) -> tuple[SampledRun, Decision | None] | None:
    """Measure until the answer is known; None in all processes but the first."""
    from mse_lab.probe.training import find_setting

    training = read_training_options(arguments, probe.training)
    probe = probe.model_copy(update={"training": training})
    setting = find_setting(training, probe)
    _seconds(arguments)  # Refused before anything is measured.
    if processes.first:
        show_status(f"{name}: loading torch and the model")
    from mse_lab.measurement.looks import COMPLETIONS
    from mse_lab.mse.regret import TOLERANCE
    from mse_lab.mse.verdict import Question, decide
    from mse_lab.report.advice_files import as_run
    from mse_lab.results.checks import none_failed
    from mse_lab.run.advise import sample_probe
    from mse_lab.run.prepare import prepare

    regret = arguments.regret or TOLERANCE
    question = Question(setting.estimator, setting.group_size, regret, probe.interval.level)
    spec = prepare(name, probe, folder, ROOT, processes)
    ended = sample_probe(
        spec,
        partial(decide, question=question, awaited=COMPLETIONS),
        budget=arguments.budget,
        fresh=arguments.fresh,
    )
    if not processes.first:
        return None
    run = as_run(
        name, probe, ended.prompts, ended.stopped, regret,
        held=none_failed(ended.checks), told=tuple(ended.warnings),
        size=probe.prompts.population_size(len(spec.prompts)),
    )  # fmt: skip
    return run, ended.decision
