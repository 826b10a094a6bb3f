"""What commands share: kinds of arguments, and the runs and probes that they name."""

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mse_lab.errors import LARGEST_SIZE, InputError, nearest, shorten
from mse_lab.project import EXAMPLES, PROJECT

if TYPE_CHECKING:
    from mse_lab.config.schema import Probe
    from mse_lab.run.changes import Changes

ROOT, RESULTS = PROJECT, Path("results")


def find_run(name: str) -> Path:
    """Find a run by its folder, or by the name or file of its probe.

    Results in the working folder come before those in the project, and the demo's.
    """
    if name.endswith((".yaml", ".yml")):
        from mse_lab.config.probe_files import probe_name

        name = probe_name(Path(name), ROOT)
    paths = [Path(name), RESULTS / name, ROOT / "results" / name, EXAMPLES / name]
    folders = [path for path in paths if path.is_dir()]
    # A checkpoint in the working folder may have the name of its probe.
    runs = (folder for folder in folders if (folder / "config.yaml").is_file())
    return next(runs, (folders or paths)[0])


def existing_runs(names: Sequence[str]) -> list[Path]:
    """Find runs that are there."""
    for name, run in ((name, find_run(name)) for name in names):
        if not run.exists():
            places = RESULTS, ROOT / "results", EXAMPLES
            known = sorted(
                {
                    table.parent.relative_to(place).as_posix()
                    for place in places
                    for table in place.rglob("mse.csv")
                }
            )
            raise InputError(f"{shorten(name)}: no finished run; {nearest(name, known)}")
    return [find_run(name) for name in names]


def compare_runs(runs: Sequence[Path], names: Sequence[str]) -> "list[Changes]":
    """Compare runs with what they were made of; each has a name, maybe its probe's."""
    from mse_lab.run.changes import find_changes

    return [find_changes(run, name, ROOT) for run, name in zip(runs, names, strict=True)]


def say_changes(changes: "Sequence[Changes]", *, as_json: bool = False) -> None:
    """Print what has changed first of all; on standard error what was not compared.

    Where standard output is JSON, both go there.
    """
    for each in changes:
        if each.unknown:
            print(each.unknown, file=sys.stderr)
    for each in changes:
        if each.changed:
            print(each.changed, file=sys.stderr if as_json else sys.stdout)


def output_folder(run: Path) -> Path:
    """Give the folder for what is made of a run.

    It is the run's own folder, or, so that the project's committed runs stay unchanged, one
    in `results/` of the working folder.
    """
    for committed in (ROOT / "results", EXAMPLES):
        if run.is_relative_to(committed):
            return RESULTS / run.relative_to(committed)
    return run


def file_to_write(text: str) -> Path:
    """Read the name of a file, which need not exist, and is no link."""
    path = Path(text)
    folder = text.endswith("/") or (path.exists() and not path.is_file())
    if not text or path.is_symlink() or folder:
        raise argparse.ArgumentTypeError(f"{text!r} names no regular file; name one")
    return path


def share_of(text: str) -> float:
    """Read a share."""
    with suppress(ValueError):
        if 0 < (share := float(text)) <= 1:
            return share
    raise argparse.ArgumentTypeError(f"{text!r} is no share from 0 to 1, such as 0.05")


def whole(what: str, low: int, high: int, example: int) -> Callable[[str], int]:
    """Make a reader of a whole number from `low` to `high`."""

    def read(text: str) -> int:
        # Python refuses to read thousands of digits.
        if text.isdecimal() and len(text) < 20 and low <= int(text) <= high:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}, such as {example}")

    return read


group_size = whole(f"group size from 2 to {LARGEST_SIZE}", 2, LARGEST_SIZE, 8)
any_group_size = whole("group size", 1, LARGEST_SIZE, 8)
completions = whole("number of completions", 1, 10**12, 1024)
max_tokens = whole("number of tokens", 1, 2**31 - 1, 256)
processes = whole("number of processes", 1, 256, 2)


# Arguments that several commands take.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "runs": {
        **{"nargs": "+", "metavar": "RUN"},
        "help": "a folder of results, or a probe's name or file",
    },
    "--set": {
        **{"action": "append", "default": [], "metavar": "KEY=VALUE"},
        "help": "change a setting: interval.level=0.9",
    },
    "--out": {
        **{"type": Path, "default": RESULTS, "metavar": "DIR"},
        "help": "instead of results/",
    },
    "--fresh": {"action": "store_true", "help": "start over"},
    "--json": {"action": "store_true", "help": "for programs"},
}


class _Once(argparse._StoreAction):
    """An option of which the last one would count, silently, were it given twice."""

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option: str | None = None
    ) -> None:
        given = namespace.__dict__.setdefault("given", set())
        if option is not None and self.dest in given:
            parser.error(f"{option} is given twice; give it once, with all that it takes")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """A parser that refuses words in one line, without the usage; an option comes once."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        for action in (None, "store"):
            self.register("action", action, _Once)

    def error(self, message: str) -> NoReturn:
        """Refuse the words."""
        joint = " see" if message.endswith("?") else "; see"
        raise InputError(f"{shorten(message, 500)}{joint} {self.prog} --help")

    def add(self, *names: str, **changes: Any) -> None:
        """Add some of the shared `ARGUMENTS`."""
        for name in names:
            self.add_argument(name, **ARGUMENTS[name] | changes)

    def add_file(self, help: str) -> None:
        """Add `--out`, the file to write."""
        self.add_argument("--out", type=file_to_write, metavar="FILE", help=help)


def load_probes(names: Sequence[str], settings: Sequence[str]) -> list[tuple[str, "Probe"]]:
    """Read names and probes, all before any is measured, so that a wrong one is refused."""
    from mse_lab.config.probe_files import load_probe, probe_file, probe_name

    paths: dict[str, Path] = {}
    for path in (probe_file(name, ROOT) for name in names):
        name = probe_name(path, ROOT)
        if name in paths:
            raise InputError(
                f"{paths[name]} and {path}: both results would lie in {name}; rename a "
                "file, or give them apart, each with its --out"
            )
        paths[name] = path
    return [(name, load_probe(path, settings)) for name, path in paths.items()]
