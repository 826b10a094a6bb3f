"""The words of the command line: read, or refused in one line.

What a command does is not known here: `cli` has a function of its name.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from mse_lab.console import NAME
from mse_lab.errors import InputError, shorten
from mse_lab.version import VERSION

# The project, whose probes and results are found after those of the working folder.
ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path("results")

# Group sizes, and completions of a budget, that make sense.
LARGEST_SIZE, LARGEST_BUDGET = 4096, 10**12

# Further figures, and what they show.
INSTEAD_OF_FIGURE_4 = {
    "phase": "on which prompts a baseline near the value helps",
    "regimes": "runs where it helps above those where it hurts, and why",
}
LARGEST_SEED = 10**18 - 1
# Digits of a number that is read at all: Python refuses thousands.
DIGITS = 18
# Trainings at a time that make sense on one machine.
MOST_PROCESSES = 256

DESCRIPTION = (
    "Measure how far policy-gradient estimates are from the true gradient of a model."
)
EXAMPLES = """\
examples:
  mse-lab init MODEL PROMPTS   write a probe of one's own
  mse-lab run tiny/base        one measurement
  mse-lab plan tiny/base       what that will take, before it is spent
  mse-lab advise tiny/base     which group size, which baseline
  mse-lab report tiny/base     all of it on one page
  mse-lab figure               Figure 4 from finished runs; --phase: why so
  mse-lab claims tiny/base     the paper's statements, put to a run
  mse-lab analyse POOLS.npz    the tables again, at other settings
  mse-lab theory               and those about training, put to bandits
  mse-lab along tiny/base --checkpoints 'out/checkpoint-*'
                               what changes along a training run
  mse-lab train group-size --quick
                               does the predicted group size train best?
  mse-lab list                 the probes and their results
  torchrun --nproc-per-node 8 run_mse.py run PROBE
                               one measurement, by eight processes
"""


def finished(name: str) -> Path:
    """Find a run: a folder, or what `run NAME` wrote here; else one of the project's.

    The name is a probe's, or its file's.
    """
    if name.endswith((".yaml", ".yml")):
        from mse_lab.probe.probe_files import probe_name

        name = probe_name(Path(name), ROOT)
    places = [Path(name), RESULTS / name, ROOT / "results" / name]
    there = [place for place in places if place.is_dir()]
    # A checkpoint may have the name of its probe, and lie where one works.
    runs = (place for place in there if (place / "config.yaml").is_file())
    return next(runs, (there or places)[0])


def place_for(run: Path) -> Path:
    """Say where what is made of a run lies: beside it, or in `results/` here.

    The latter for the project's own runs: seen from elsewhere they stay as they are.
    """
    own = ROOT / "results"
    return RESULTS / run.relative_to(own) if run.is_relative_to(own) else run


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Refuse the words."""
        raise InputError(f"{shorten(message, 300)}; see {self.prog} --help")


def folder_to_write(text: str) -> Path:
    """Read the name of a folder, which need not exist."""
    if Path(text).exists() and not Path(text).is_dir():
        raise argparse.ArgumentTypeError(
            f"results cannot be written to {text!r}; name a folder"
        )
    return Path(text)


def file_to_write(text: str) -> Path:
    """Read the name of a file, which need not exist; of a link, that of its target."""
    # Not `resolve`, which fails on links in a circle.
    path = Path(os.path.realpath(text)) if Path(text).is_symlink() else Path(text)
    if not text or (path.exists() and not path.is_file()):
        raise argparse.ArgumentTypeError(f"{text!r} names no regular file; name one")
    return path


def group_sizes(text: str) -> list[int]:
    """Read group sizes as they are typed: 8,16."""
    found = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if not all(2 <= size <= LARGEST_SIZE for size in found):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no list of group sizes from 2 to {LARGEST_SIZE}, such as 8,16"
        )
    return found


def whole_number(what: str, low: int, high: int, such: str) -> Callable[[str], int]:
    """Read a whole number of something, from `low` to `high`; `such` is the remedy."""

    def read(text: str) -> int:
        short = text.isdecimal() and len(text) <= DIGITS
        if not (short and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{text!r} is no {what}; give {such}")
        return int(text)

    return read


group_size = whole_number(
    f"group size from 2 to {LARGEST_SIZE}", 2, LARGEST_SIZE, "one such as 8"
)
completions = whole_number("number of completions", 1, LARGEST_BUDGET, "one such as 1024")
seed = whole_number("seed", 0, LARGEST_SEED, "one such as 0")
processes = whole_number(
    "number of processes", 1, MOST_PROCESSES, f"one from 1 to {MOST_PROCESSES}"
)


def _complete_names(action: argparse.Action) -> None:
    """Let argcomplete complete the names of probes, which are those of their results."""

    def names(**_: object) -> list[str]:
        from mse_lab.probe.probe_files import probe_files

        return [name for name, _ in probe_files(ROOT)]

    action.completer = names  # type: ignore[attr-defined]


def _take_settings(one: Parser, such: str = "interval.level=0.9") -> None:
    help = f"change a setting: {such}"
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=help)


def _take_results(one: Parser) -> None:
    kind, help = folder_to_write, "instead of results/"
    one.add_argument("--out", type=kind, default=RESULTS, metavar="DIR", help=help)


def _take_probes(one: Parser) -> None:
    help = "tiny/base, or a .yaml file"
    _complete_names(one.add_argument("probes", nargs="+", metavar="PROBE", help=help))
    _take_settings(one)
    _take_results(one)


def _take_along(one: Parser) -> None:
    help = "tiny/base, or a .yaml file"
    _complete_names(one.add_argument("probe", metavar="PROBE", help=help))
    help = "folders, or a pattern of them: 'out/checkpoint-*'"
    one.add_argument("--checkpoints", nargs="+", required=True, metavar="FOLDER", help=help)
    text = "put the probe's own model first, as step 0"
    one.add_argument("--from-start", action="store_true", help=text)
    text = "group size of the training run, by default 8, TRL's"
    one.add_argument("--group-size", type=group_size, default=8, metavar="G", help=text)
    one.add_argument("--fresh", action="store_true", help="start over")
    _take_settings(one)
    _take_results(one)


def _take_study(one: Parser) -> None:
    one.add_argument("study", metavar="STUDY", help="group-size, or a .yaml file")
    _take_settings(one, such="eta=0.01")
    _take_results(one)
    text = "the main grid alone, 3 seeds of 60 steps"
    one.add_argument("--quick", action="store_true", help=text)
    text = "runs at a time, by default 1"
    one.add_argument("--processes", type=processes, default=1, metavar="N", help=text)
    one.add_argument("--fresh", action="store_true", help="start over")
    instead = one.add_mutually_exclusive_group()
    text = "say what it will take"
    instead.add_argument("--dry-run", action="store_true", help=text)
    text = "train nothing; judge and draw the runs that are done"
    instead.add_argument("--so-far", action="store_true", help=text)
    text = "train one run, such as main-G8-seed0, once more; keep its checkpoints"
    instead.add_argument("--save", metavar="RUN", help=text)


def _take_run(one: Parser, name: str, nargs: str | None = None) -> None:
    help = "a folder of results, or a probe's name or file"
    run = one.add_argument(name, nargs=nargs, type=finished, metavar="RUN", help=help)
    _complete_names(run)


def _take_file(one: Parser, help: str) -> None:
    one.add_argument("--out", type=file_to_write, metavar="FILE", help=help)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    if any("\0" in word for word in words):
        raise InputError("the command line holds a NUL byte; remove it")
    parser = Parser(
        prog=NAME,
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mse_lab {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, help: str) -> Parser:
        one: Parser = commands.add_parser(name, help=help)
        return one

    one = command("init", "write a probe for a model and prompts of yours")
    one.add_argument("model", metavar="MODEL", help="a checkpoint's folder, or a Hub name")
    help = "JSONL, a problem and its answer a line; CSV, Parquet, or a Hub data set"
    one.add_argument("prompts", metavar="PROMPTS", help=help)
    _take_file(one, "the probe; default: MODEL's name, .yaml")
    one = command("run", "one measurement per probe")
    _take_probes(one)
    one.add_argument("--fresh", action="store_true", help="start over")
    one = command(
        "plan", "what a run will take: completions, tokens, memory, time, intervals"
    )
    _take_probes(one)
    one.add_argument("--fresh", action="store_true", help="start over")
    one.add_argument("--json", action="store_true", help="for programs")
    _take_study(command("train", "a study: does the predicted group size train best?"))
    one = command("figure", "Figure 4 from finished runs")
    _take_run(one, "runs", "*")
    _take_file(one, ".png, .pdf or .svg")
    one.set_defaults(kind="figure4")
    instead = one.add_mutually_exclusive_group()
    for kind, text in INSTEAD_OF_FIGURE_4.items():
        help = f"instead of Figure 4, {text}"
        instead.add_argument(
            f"--{kind}", action="store_const", dest="kind", const=kind, help=help
        )
    _take_run(command("claims", "the paper's statements, put to runs"), "runs", "+")
    one = command("advise", "which group size, which baseline")
    _take_run(one, "run")
    text = "group sizes to price, such as 8,16"
    one.add_argument("--at", type=group_sizes, default=[], metavar="G,...", help=text)
    text = "completions N that errors are stated for, by default 1024; with --allocate, "
    text += "those of one step, by default the recommended G for each prompt"
    one.add_argument("--budget", type=completions, metavar="N", help=text)
    text = "instead, how many completions each prompt should get"
    one.add_argument("--allocate", action="store_true", help=text)
    one.add_argument("--json", action="store_true", help="for programs")
    one = command("report", "one page about runs, in HTML")
    _take_run(one, "runs", "+")
    _take_file(one, "default: RUN/report.html")
    text = "the tables of a run, or of anybody's pools, at other settings"
    one = command("analyse", text)
    help = "a run, or a file of pools"
    one.add_argument("source", type=finished, metavar="RUN|POOLS.npz", help=help)
    _take_settings(one)
    text = "default: beside the pools"
    one.add_argument("--out", type=folder_to_write, metavar="DIR", help=text)
    one = command("theory", "the paper's statements about training, put to bandits")
    text = "default: results/theory, and figures/"
    one.add_argument("--out", type=folder_to_write, metavar="DIR", help=text)
    text = "of all draws, by default 0"
    one.add_argument("--seed", type=seed, default=0, metavar="N", help=text)
    _take_along(command("along", "what changes along a training run"))
    _take_results(command("list", "the probes, and whether their results stand"))
    if "_ARGCOMPLETE" in os.environ:  # A shell asks what may follow.
        import argcomplete

        argcomplete.autocomplete(parser)
    for word in words:
        option, equals, value = word.partition("=")
        given = value if option.startswith("--") and equals else word
        if not given.strip():
            parser.error(f"{shorten(word)!r}: empty; give a value, or leave it out")
        if given != word and value == "--":  # argparse would give no value.
            parser.error(f"{option}: expected one argument, not --")
    return parser.parse_args(words)
