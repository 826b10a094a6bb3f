"""Would the suite notice? `python tests/mutations/run.py [--only NAME ...] [--together]`.

Each mutation of `mutations.yaml` breaks one property of the program. It is applied alone to
a copy of the tree, and the tests that must notice it are run until the first that fails.
`--together` applies several at once (by default the first ten), for one may hide another.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NOT_COPIED = (".git", ".venv", "__pycache__", ".*_cache", "*.egg-info")
SURVIVED = "SURVIVED"


@dataclass(frozen=True)
class Mutation:
    """One change of the program's text.

    Attributes:
        name: What it is called.
        breaks: The property that it breaks.
        file: Where.
        before: The text, found exactly once.
        after: What takes its place.
        tests: Files, or single tests of slow ones, one of which must notice.
    """

    name: str
    breaks: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


def read_mutations(path: Path = HERE / "mutations.yaml") -> list[Mutation]:
    """Read the list."""
    entries = yaml.safe_load(path.read_text("utf-8"))
    return [Mutation(**{**one, "tests": tuple(one["tests"])}) for one in entries]


def misplaced(mutation: Mutation, root: Path = ROOT) -> str | None:
    """Say why a mutation cannot be applied, if it cannot."""
    text = (root / mutation.file).read_text("utf-8")
    if (count := text.count(mutation.before)) != 1:
        return f"{mutation.name}: found {count} times in {mutation.file}, not once"
    files = [name.partition("::")[0] for name in mutation.tests]
    missing = [name for name in files if not (root / name).exists()]
    return f"{mutation.name}: no {', '.join(missing)}" if missing else None


@contextmanager
def copied_tree() -> Iterator[Path]:
    """Give a copy of the tree, in which nothing compiled is left behind."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        yield copy


@contextmanager
def mutated(tree: Path, mutations: Sequence[Mutation]) -> Iterator[None]:
    """Apply mutations inside the block."""
    originals: dict[Path, str] = {}
    for one in mutations:
        path = tree / one.file
        text = path.read_text("utf-8")
        originals.setdefault(path, text)
        path.write_text(text.replace(one.before, one.after), "utf-8")
    try:
        yield
    finally:
        for path, text in originals.items():
            path.write_text(text, "utf-8")


def first_failure(tree: Path, tests: Sequence[str]) -> str | None:
    """Run tests until one fails; name it, or None where all pass.

    Raises:
        SystemExit: They could not be run: a mutation that does not import shows nothing.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command,
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    found = re.search(r"^(?:FAILED|ERROR) (\S+?::\S+)", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1) or bool(done.returncode) != bool(found):
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return found[1] if found else None


def judge(tree: Path, mutations: Sequence[Mutation]) -> str:
    """Name the test that catches mutations applied together, or say that they survive."""
    tests = list(dict.fromkeys(name for one in mutations for name in one.tests))
    with mutated(tree, mutations):
        return first_failure(tree, tests) or SURVIVED


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row a mutation; the exit status is 1 where one survives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mutations")
    parser.add_argument("--together", action="store_true", help="all at once")
    chosen = parser.parse_args(arguments)
    mutations = read_mutations()
    names = [one.name for one in mutations]
    if unknown := set(chosen.only or ()) - set(names):
        parser.error(f"{', '.join(sorted(unknown))}: not among {', '.join(names)}")
    mutations = [one for one in mutations if one.name in (chosen.only or names)]
    if problems := [problem for one in mutations if (problem := misplaced(one))]:
        parser.error("\n".join(problems))
    if chosen.together and not chosen.only:
        mutations = mutations[:10]
    rounds = [mutations] if chosen.together else [[one] for one in mutations]
    print("| mutation | breaks | noticed by | time |\n|---|---|---|---|", flush=True)
    with copied_tree() as tree:
        tests = sorted({name for one in mutations for name in one.tests})
        if failed := first_failure(tree, tests):
            parser.error(f"{failed} fails without any mutation")
        survivors = sum(_report(tree, each) == SURVIVED for each in rounds)
    print(f"\n{len(rounds) - survivors} of {len(rounds)} caught, {survivors} survived")
    return int(survivors > 0)


def _report(tree: Path, mutations: Sequence[Mutation]) -> str:
    start = time.monotonic()
    outcome = judge(tree, mutations)
    names = ", ".join(one.name for one in mutations)
    breaks = mutations[0].breaks if len(mutations) == 1 else f"{len(mutations)} at once"
    cells = names, breaks, outcome, f"{time.monotonic() - start:.0f} s"
    print("|", " | ".join(cell.replace("|", r"\|") for cell in cells), "|", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
