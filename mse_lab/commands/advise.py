"""`mse-lab advise`: whether to keep the group size of a training, and what to set instead.

The advice is read off a finished run; without one the probe is measured until the answer is
known. Of several runs, or at the checkpoints of a training, there is a line for each.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mse_lab.commands.command_line import (
    RESULTS,
    ROOT,
    Parser,
    compare_runs,
    completions,
    find_run,
    load_probes,
    output_folder,
    say_changes,
    share_of,
)
from mse_lab.commands.run import in_processes
from mse_lab.commands.training_options import add_training, read_training_options
from mse_lab.console import COMMAND_PREFIX, show_status
from mse_lab.errors import InputError, NoAnswer

if TYPE_CHECKING:
    from mse_lab.answers.advice import Advice
    from mse_lab.config.schema import Probe
    from mse_lab.run.processes import Processes

HELP = "whether to keep the group size, and what to set"

# The files of a run's folder that its advice is made from.
SOURCES = ("pools.npz", "advice.json")


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    help = "a probe's name or .yaml file, or a folder of results; several: a line for each"
    parser.add_argument("names", nargs="+", metavar="PROBE", help=help)
    help = "measure the probe at what a trainer saved, a line each: 'out/checkpoint-*'"
    parser.add_argument("--checkpoints", nargs="+", metavar="DIR", help=help)
    help = "the most completions drawn in all, by default 8,192"
    parser.add_argument("--budget", type=completions, metavar="N", help=help)
    help = "how much more than the best group size is all right, by default 0.05"
    parser.add_argument("--regret", type=share_of, metavar="SHARE", help=help)
    parser.add("--fresh", "--set", "--out", "--json")
    add_training(parser)


def _find_results(name: str, arguments: Namespace) -> tuple[Path, str | None]:
    """Find the folder of a run; and the name of its probe, if there is one to measure."""
    from mse_lab.config.probe_files import probe_file, probe_name

    run, probe = find_run(name), None
    try:
        probe = probe_name(probe_file(name, ROOT), ROOT)
    except InputError:
        if not run.exists():
            raise
    if probe is not None and arguments.out != RESULTS:
        run = arguments.out / probe
    return run, probe


def _stands(run: Path) -> bool:
    return any((run / source).exists() for source in SOURCES)


def execute(arguments: Namespace) -> int:
    """Print and write the advice, measured first if need be."""
    if arguments.checkpoints:
        return in_processes(measure_checkpoints, arguments)
    anew, [name, *others] = arguments.fresh or bool(arguments.set), arguments.names
    if others:
        return compare(arguments, anew)
    run, probe = _find_results(name, arguments)
    if probe is not None and (anew or not _stands(run)):
        return in_processes(measure_until_answered, arguments)
    if anew or (probe is None and arguments.out != RESULTS):
        raise InputError(
            f"--fresh, --set, --out: {run} is a finished run, which answers as it is; give "
            "its probe, or leave them out"
        )
    from mse_lab.answers.advice import keep_advice_of_run
    from mse_lab.report.advice_report import say_advice

    advice = _read(run, probe and name, arguments)
    print(say_advice(*_head([advice], [run], [name], arguments), as_json=arguments.json))
    if output_folder(run).resolve() == run.resolve():
        keep_advice_of_run(run, advice)
    return 0


def _head(
    advices: list[Advice], runs: list[Path], names: list[str], arguments: Namespace
) -> list[Advice]:
    """Say first what has changed since runs were made; in JSON as the first warning."""
    changes = compare_runs(runs, names)
    if not arguments.json:
        say_changes(changes)
        return advices
    return [
        replace(advice, warnings=(*filter(None, each), *advice.warnings))
        for advice, each in zip(advices, changes, strict=True)
    ]


def _read(run: Path, probe: str | None, arguments: Namespace) -> Advice:
    """Advise from a finished run, on the training of its probe as that is now."""
    if arguments.budget:
        raise InputError(
            f"--budget: {run} is measured, and nothing more is drawn; leave it out, or "
            "measure anew with --fresh"
        )
    from mse_lab.answers.advice import advise_run
    from mse_lab.config.training import find_setting
    from mse_lab.mse.rule import TOLERANCE
    from mse_lab.results.finished_run import read_probe

    of_probe = load_probes([probe], [])[0][1].training if probe is not None else None
    training = read_training_options(arguments, of_probe)
    of_run = read_probe(run) if (run / "config.yaml").is_file() else None
    setting = None if training is None else find_setting(training, of_run)
    return advise_run(run, setting, arguments.regret or TOLERANCE)


def compare(arguments: Namespace, anew: bool) -> int:
    """Print a line for each of several runs, or of what `advise` has measured of them."""
    if anew:
        raise InputError(
            "--fresh, --set: of several runs there is a line each, as they are; give one, "
            "or none of these"
        )
    from mse_lab.results.folder import ADVICE

    names, runs, advices = list(dict.fromkeys(arguments.names)), [], []
    for name in names:
        run, probe = _find_results(name, arguments)
        standing = next(filter(_stands, (run, run / ADVICE)), None)
        if standing is None:
            raise InputError(
                f"{run}: no finished run; measure it with {COMMAND_PREFIX} advise {name}"
            )
        [since] = compare_runs([standing], [name])
        if standing != run and since.changed:
            raise InputError(since.changed)  # As where `advise` would go on with it.
        runs.append(standing)
        advices.append(_read(standing, probe and name, arguments))
    headed = _head(advices, runs, names, arguments)
    _show_lines(arguments, "run", dict(zip(names, headed, strict=True)))
    return 0


def _show_lines(
    arguments: Namespace, what: str, advices: Mapping[str, Advice | str]
) -> None:
    from mse_lab.report.advice_report import advice_lines, advice_list

    show_status()
    if arguments.json:
        print(advice_list(what, advices))
    else:
        print(advice_lines(what, advices))


def measure_until_answered(arguments: Namespace, processes: Processes) -> int:
    """Measure until the answer is known, in one of the processes; 1 if a check failed."""
    from mse_lab.report.advice_report import say_advice
    from mse_lab.results.folder import ADVICE

    [(name, probe)] = load_probes(arguments.names, arguments.set)
    advice = _sample(name, probe, arguments.out / name / ADVICE, arguments, processes)
    if advice is None:
        return 0
    show_status()
    print(say_advice(advice, as_json=arguments.json))
    return int(not advice.held)


def measure_checkpoints(arguments: Namespace, processes: Processes) -> int:
    """Measure a probe at each checkpoint, in its own folder: `measure_until_answered`."""
    from mse_lab.config.probe_files import at_checkpoint, find_checkpoints

    if len(arguments.names) > 1:
        raise InputError("--checkpoints: of which probe? give one probe")
    for text in arguments.set:
        if text.startswith(("model.path", "model.revision")):
            raise InputError(f"--checkpoints name the model; leave out --set {text}")
    [(name, probe)] = load_probes(arguments.names, arguments.set)
    advices: dict[str, Advice | str] = {}
    for step, path in find_checkpoints(arguments.checkpoints).items():
        label = f"{name}/checkpoints/{path.name}"
        folder, one = arguments.out / label, at_checkpoint(probe, path)
        try:
            advice = _sample(label, one, folder, arguments, processes)
        except NoAnswer as error:  # Of this step there is no advice; the others go on.
            advices[str(step)] = str(error)
            continue
        if advice is not None:
            advices[str(step)] = advice
    if processes.first:
        _show_lines(arguments, "step", advices)
    return int(any(not (isinstance(one, str) or one.held) for one in advices.values()))


def _sample(
    name: str, probe: Probe, folder: Path, arguments: Namespace, processes: Processes
) -> Advice | None:
    """Measure until the answer is known, and keep it; None in all processes but the first.

    Raises:
        NoAnswer: The completions do not tell anything.
    """
    from mse_lab.config.training import find_setting
    from mse_lab.mse.rule import TOLERANCE
    from mse_lab.run.subject import prepare

    training = read_training_options(arguments, probe.training)
    probe = probe.model_copy(update={"training": training})
    setting, regret = find_setting(training, probe), arguments.regret or TOLERANCE
    subject = prepare(name, probe, folder, processes=processes, fresh=arguments.fresh)
    from mse_lab.answers.advice import keep_advice, make_advice
    from mse_lab.answers.advice_evidence import ask
    from mse_lab.api.measure import evidence_of
    from mse_lab.run.advise import sample_probe

    question = ask(setting, probe.interval.level, regret)
    ended = sample_probe(subject, question, budget=arguments.budget, fresh=arguments.fresh)
    if not processes.first:
        return None
    advice = make_advice(evidence_of(ended, setting, question))
    keep_advice(folder, advice)
    return advice
