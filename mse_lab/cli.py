"""Measure how far policy-gradient estimates are from the true gradient of a model.

python run_mse.py run tiny/base        one measurement
torchrun --nproc-per-node 8 run_mse.py run PROBE   the same, by eight processes
python run_mse.py plan tiny/base       what that will take, before it is spent
python run_mse.py figure               Figure 4 from finished runs
python run_mse.py claims tiny/base     the paper's statements, put to a run
python run_mse.py advise tiny/base     which group size, which baseline
python run_mse.py report tiny/base     all of it on one page
python run_mse.py analyse POOLS.npz    the tables again, at other settings
python run_mse.py list                 the probes and their results
"""

from __future__ import annotations

# What the commands need beyond this they import themselves: late, within `conclude`, and
# torch not before the probes are known to be right, nor where no model is needed.
import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from mse_lab import __version__
from mse_lab.console import complain, conclude, started_by_torchrun, take_over
from mse_lab.errors import InputError, shorten

if TYPE_CHECKING:
    from mse_lab.probe.schema import Probe
    from mse_lab.run.processes import Processes
    from mse_lab.run.resume import Outcome

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
FIGURE_4 = ("tiny/base", "tiny/instruct", "tiny/icl")


def load_probes(arguments: argparse.Namespace) -> list[tuple[str, Probe]]:
    """Read the probes that are named, before any is measured; give the name of each."""
    from mse_lab.probe.probe_files import load_probe, probe_file, probe_name

    paths = [probe_file(name, ROOT) for name in arguments.probes]
    return [(probe_name(path, ROOT), load_probe(path, arguments.set)) for path in paths]


def run(arguments: argparse.Namespace) -> int:
    """Measure each probe; 1 if a built-in check failed."""
    if not started_by_torchrun():
        from mse_lab.run.processes import ALONE

        return measure(arguments, ALONE)
    from mse_lab.run.torchrun import join

    with join(complain) as processes:
        return measure(arguments, processes)


def measure(arguments: argparse.Namespace, processes: Processes) -> int:
    """Measure each probe, in one of the processes that share it."""
    probes = load_probes(arguments)
    from mse_lab.results.checks import hold
    from mse_lab.run.run_probe import run_probe

    held = []
    for name, probe in probes:
        folder, fresh = arguments.out / name, arguments.fresh
        outcome = run_probe(name, probe, folder, ROOT, fresh=fresh, processes=processes)
        held.append(hold(outcome.checks))
        if processes.first:
            announce(folder, outcome)
    return int(not all(held))


def announce(folder: Path, outcome: Outcome) -> None:
    """Say on the screen what became of a run."""
    from mse_lab.results.checks import hold, summary

    state = "finished before, left as it is (--fresh starts over)"
    if outcome.mended:
        state = f"{', '.join(outcome.mended)} made again from pools.npz"
    print(f"{folder}: {state if outcome.found else 'results written'}")
    print(summary(outcome.checks))
    for line in outcome.diagnostics.lines if outcome.diagnostics else []:
        print(line)
    for warning in outcome.warnings:
        print(f"warning: {warning}")
    if not hold(outcome.checks):
        complain(f"{folder}: a built-in check FAILED; do not rely on its numbers")


def plan(arguments: argparse.Namespace) -> int:
    """Measure the first prompts of each probe; say what a run of it will take."""
    if started_by_torchrun():
        raise InputError("plan needs one process; start it without torchrun")
    probes = load_probes(arguments)
    from mse_lab.run.plan import plan_probe
    from mse_lab.run.plan_text import plan_json, plan_text

    plans = []
    for name, probe in probes:
        plans.append(plan_probe(name, probe, arguments.out / name, ROOT))
        if not arguments.json:
            print(plan_text(plans[-1]) + "\n" * (len(plans) < len(probes)))
    if arguments.json:
        print(plan_json(plans))
    return 0


def finished(name: str) -> Path:
    """Find a run: a folder, or the name of a probe whose result lies in `results/`."""
    folder, named = Path(name), RESULTS / name
    return named if named.is_dir() and not folder.is_dir() else folder


def figure(arguments: argparse.Namespace) -> int:
    """Draw Figure 4, and its companion where there are further estimators."""
    from mse_lab.report.figure_4 import companion_of, draw_companion, draw_figure

    folders = arguments.runs or [finished(name) for name in FIGURE_4]
    default = [ROOT / "figures" / f"figure4{suffix}" for suffix in (".png", ".pdf")]
    for output in [arguments.out] if arguments.out else default:
        draw_figure(folders, output)
        print(f"{output} written")
        if draw_companion(folders, companion_of(output)):
            print(f"{companion_of(output)} written")
    return 0


def claims(arguments: argparse.Namespace) -> int:
    """Put the paper's statements to the runs; print and write the verdicts."""
    from mse_lab.answers.claims import judge_runs
    from mse_lab.answers.measured_run import read_run
    from mse_lab.report.claims_report import claims_markdown, write_claims

    judged = judge_runs([read_run(folder) for folder in arguments.runs])
    for folder in arguments.runs:
        write_claims(folder, judged)
    print(claims_markdown(judged))
    return 0


def advise(arguments: argparse.Namespace) -> int:
    """Say which group size and baseline suit a run's model and prompts."""
    from mse_lab.report.advice_report import advise_run

    print(advise_run(arguments.run))
    return 0


def report(arguments: argparse.Namespace) -> int:
    """Write one page about the runs."""
    from mse_lab.report.page import write_report

    output = arguments.out or arguments.runs[0] / "report.html"
    write_report(arguments.runs, output)
    print(f"{output} written")
    return 0


def analyse(arguments: argparse.Namespace) -> int:
    """Write the tables of a run, or of anybody's pools, at other settings."""
    from mse_lab.answers.door import reanalyse
    from mse_lab.results.records import Record

    source = arguments.source
    result = reanalyse(source, arguments.set)
    beside = source / "analysis" if source.is_dir() else source.with_suffix("")
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


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Refuse the words."""
        raise InputError(f"{shorten(message, 300)}; see {self.prog} --help")


def folder_to_write(text: str) -> Path:
    """Read the name of a folder, which need not exist."""
    if not text or Path(text).is_file():
        raise argparse.ArgumentTypeError(
            f"results cannot be written to {text!r}; name a folder"
        )
    return Path(text)


def file_to_write(text: str) -> Path:
    """Read the name of a file, which need not exist."""
    if not text or Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} names no file; name one")
    return Path(text)


def _take_settings(one: Parser) -> None:
    help = "change a setting: interval.level=0.9"
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=help)


def _take_results(one: Parser) -> None:
    kind, help = folder_to_write, "instead of results/"
    one.add_argument("--out", type=kind, default=RESULTS, metavar="DIR", help=help)


def _take_probes(one: Parser) -> None:
    help = "tiny/base, or a .yaml file"
    one.add_argument("probes", nargs="+", metavar="PROBE", help=help)
    _take_settings(one)
    _take_results(one)


def _take_run(one: Parser, name: str, nargs: str | None = None) -> None:
    help = "a folder of results, or a probe's name"
    one.add_argument(name, nargs=nargs, type=finished, metavar="RUN", help=help)


def _take_file(one: Parser, help: str) -> None:
    one.add_argument("--out", type=file_to_write, metavar="FILE", help=help)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    if any("\0" in word for word in words):
        raise InputError("the command line holds a NUL byte; remove it")
    parser = Parser(prog="run_mse.py", description=__doc__.splitlines()[0])
    parser.add_argument("--version", action="version", version=f"mse_lab {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        action: Callable[[argparse.Namespace], int], name: str, help: str
    ) -> Parser:
        one: Parser = commands.add_parser(name, help=help)
        one.set_defaults(command=action)
        return one

    one = command(run, "run", "one measurement per probe")
    _take_probes(one)
    one.add_argument("--fresh", action="store_true", help="start over")
    one = command(
        plan, "plan", "what a run will take: completions, tokens, memory, time, intervals"
    )
    _take_probes(one)
    one.add_argument("--json", action="store_true", help="for programs")
    one = command(figure, "figure", "Figure 4 from finished runs")
    _take_run(one, "runs", "*")
    _take_file(one, ".png, .pdf or .svg")
    _take_run(command(claims, "claims", "the paper's statements, put to runs"), "runs", "+")
    _take_run(command(advise, "advise", "which group size, which baseline"), "run")
    one = command(report, "report", "one page about runs, in HTML")
    _take_run(one, "runs", "+")
    _take_file(one, "default: RUN/report.html")
    text = "the tables of a run, or of anybody's pools, at other settings"
    one = command(analyse, "analyse", text)
    help = "a run, or a file of pools"
    one.add_argument("source", type=finished, metavar="RUN|POOLS.npz", help=help)
    _take_settings(one)
    text = "default: beside the pools"
    one.add_argument("--out", type=folder_to_write, metavar="DIR", help=text)
    _take_results(command(show_list, "list", "the probes, and whether their results stand"))
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""

    def command() -> int:
        arguments = parse(sys.argv[1:] if words is None else words)
        return int(arguments.command(arguments))

    return conclude(command)


def start() -> NoReturn:
    """Run the command line as a process of its own: `mse-lab`, `python run_mse.py`."""
    take_over()
    sys.exit(main())
