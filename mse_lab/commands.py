"""The commands about gradients: what each does with the words `command_line` has read."""

from __future__ import annotations

# What the commands need beyond this they import themselves: late, within `conclude`, and
# torch not before the probes are known to be right, nor where no model is needed.
import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mse_lab.command_line import RESULTS, ROOT, finished, place_for
from mse_lab.console import TYPED, complain, show_status, started_by_torchrun
from mse_lab.errors import InputError

if TYPE_CHECKING:
    from mse_lab.probe.schema import Probe
    from mse_lab.run.processes import Processes
    from mse_lab.run.resume import Outcome

FIGURE_4 = ("tiny/base", "tiny/instruct", "tiny/icl")
LENIENT = ("lenient/base", "lenient/instruct", "lenient/icl")


def load_probes(arguments: argparse.Namespace) -> list[tuple[str, Probe]]:
    """Read the probes that are named, before any is measured; give the name of each."""
    from mse_lab.probe.probe_files import load_probe, probe_file, probe_name

    paths = [probe_file(name, ROOT) for name in arguments.probes]
    found: dict[str, Path] = {}
    for path in paths:
        name = probe_name(path, ROOT)
        if name in found:
            raise InputError(
                f"{found[name]} and {path}: both results would lie in {name}; rename a "
                "file, or give them apart, each with its --out"
            )
        found[name] = path
    return [(name, load_probe(path, arguments.set)) for name, path in found.items()]


Measure = Callable[[argparse.Namespace, "Processes"], int]


def run(arguments: argparse.Namespace) -> int:
    """Measure each probe; 1 if a built-in check failed."""
    return share(measure, arguments)


def share(measure: Measure, arguments: argparse.Namespace) -> int:
    """Measure alone, or in one of the processes that torchrun has started."""
    if not started_by_torchrun():
        from mse_lab.run.processes import ALONE

        return measure(arguments, ALONE)
    from mse_lab.run.torchrun import join

    with join(complain) as processes:
        return measure(arguments, processes)


def measure(arguments: argparse.Namespace, processes: Processes) -> int:
    """Measure each probe, in one of the processes that share it."""
    probes = load_probes(arguments)
    if processes.first:
        show_status(f"{probes[0][0]}: loading torch and the model")
    from mse_lab.results.checks import hold
    from mse_lab.run.run_probe import run_probe

    held = []
    for name, probe in probes:
        folder, fresh = arguments.out / name, arguments.fresh
        outcome = run_probe(name, probe, folder, ROOT, fresh=fresh, processes=processes)
        held.append(hold(outcome.checks))
        if processes.first:
            announce(folder, outcome, name if arguments.out == RESULTS else str(folder))
    return int(not all(held))


def announce(folder: Path, outcome: Outcome, named: str) -> None:
    """Say on the screen what became of a run, and its answer; `named` is what finds it."""
    from mse_lab.report.advice_files import answer_lines, screen_width
    from mse_lab.results.checks import hold, summary
    from mse_lab.wording import wrap

    show_status()
    state = "finished before, left as it is (--fresh starts over)"
    if outcome.mended:
        state = f"{', '.join(outcome.mended)} made again from pools.npz"
    print(f"{folder}: {state if outcome.found else 'results written'}")
    told = [
        *(outcome.diagnostics.lines if outcome.diagnostics else []),
        *(f"warning: {warning}" for warning in outcome.warnings),
        *answer_lines(folder),
        summary(outcome.checks),
    ]
    for line in told:
        print(wrap(line, screen_width()))
    print(f"next: {TYPED} advise {named}, or report {named}")
    if not hold(outcome.checks):
        complain(f"{folder}: a built-in check FAILED; do not rely on its numbers")


def init(arguments: argparse.Namespace) -> int:
    """Write a probe."""
    from mse_lab.probe.new_probe import write_new

    print(write_new(arguments.model, arguments.prompts, arguments.out, ROOT))
    return 0


def plan(arguments: argparse.Namespace) -> int:
    """Measure the first prompts of each probe; say what a run of it will take."""
    if started_by_torchrun():
        raise InputError("plan needs one process; start it without torchrun")
    probes = load_probes(arguments)
    show_status(f"{probes[0][0]}: loading torch and the model")
    from mse_lab.run.plan import plan_probe
    from mse_lab.run.plan_text import plan_json, plan_text

    plans = []
    for name, probe in probes:
        folder, fresh = arguments.out / name, arguments.fresh
        plans.append(plan_probe(name, probe, folder, ROOT, fresh=fresh))
        show_status()
        if not arguments.json:
            print(plan_text(plans[-1]) + "\n" * (len(plans) < len(probes)))
    if arguments.json:
        print(plan_json(plans))
    return 0


def figure(arguments: argparse.Namespace) -> int:
    """Draw Figure 4, with its companion where there are further estimators; or why so."""
    from mse_lab.report.figure_4 import companion_of, draw_companion, draw_figure
    from mse_lab.report.phase_diagram import draw_phase
    from mse_lab.report.regimes_figure import draw_regimes

    draw = {"figure4": draw_figure, "phase": draw_phase, "regimes": draw_regimes}
    names = FIGURE_4 + LENIENT * (arguments.kind == "regimes")
    folders = arguments.runs or [finished(name) for name in names]
    # Figures of a user's own runs lie beside the first of them.
    place = place_for(arguments.runs[0]) if arguments.runs else Path("figures")
    default = [place / f"{arguments.kind}{suffix}" for suffix in (".png", ".pdf")]
    for output in [arguments.out] if arguments.out else default:
        draw[arguments.kind](folders, output)
        print(f"{output} written")
        if arguments.kind == "figure4" and draw_companion(folders, companion_of(output)):
            print(f"{companion_of(output)} written")
    return 0


def claims(arguments: argparse.Namespace) -> int:
    """Put the paper's statements to the runs; print and write the verdicts."""
    from mse_lab.answers.claims import judge_runs
    from mse_lab.answers.measured_run import read_run
    from mse_lab.report.claims_report import claims_screen, write_claims

    judged = judge_runs([read_run(folder) for folder in arguments.runs])
    print(claims_screen(judged))
    for folder in arguments.runs:
        place = place_for(folder)
        write_claims(folder, judged, place)
        print(f"{place}: claims.md (reasons, by group size), claims.csv written")
    return 0


def advise(arguments: argparse.Namespace) -> int:
    """Say which group size and baseline suit a run's model and prompts."""
    from mse_lab.answers.advice import BUDGET
    from mse_lab.report.advice_files import advise_run
    from mse_lab.report.allocation_report import allocate_run

    run, sizes, budget = arguments.run, arguments.at, arguments.budget
    if arguments.allocate:
        if sizes:
            raise InputError("--at prices one G for all; leave it out with --allocate")
        print(allocate_run(run, budget, place_for(run), as_json=arguments.json))
    else:
        place = place_for(run)
        print(advise_run(run, sizes, budget or BUDGET, place, as_json=arguments.json))
    return 0


def report(arguments: argparse.Namespace) -> int:
    """Write one page about the runs."""
    from mse_lab.report.page import write_report

    output = arguments.out or place_for(arguments.runs[0]) / "report.html"
    write_report(arguments.runs, output)
    print(f"{output} written")
    return 0


def analyse(arguments: argparse.Namespace) -> int:
    """Write the tables of a run, or of anybody's pools, at other settings."""
    from mse_lab.public_api import reanalyse
    from mse_lab.results.records import Record

    source = arguments.source
    result = reanalyse(source, arguments.set)
    beside = place_for(source) / "analysis" if source.is_dir() else source.with_suffix("")
    folder = arguments.out or beside
    Record(folder).write_tables(result, list(result.tables))
    print(f"{folder}: {', '.join(result.tables)} written")
    for warning in result.warnings:
        print(f"warning: {warning}")
    return 0


def show_list(arguments: argparse.Namespace) -> int:
    """List the probes."""
    from mse_lab.report.probe_list import list_probes

    print(list_probes(ROOT, arguments.out))
    return 0
