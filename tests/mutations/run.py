"""Would the suite notice? `python tests/mutations/run.py [--draw 300] [--rooms mse ...]`.

Mutations of the rooms (`changes.py`) are drawn at random, the same for the same seed. Each
is put, alone, into a process that has the libraries loaded already. Those tests that enter
the changed function run there, the quickest first, until one fails. What survives must
stand in `survivors.yaml`, with the reason why no test should notice it.

Neither mutmut nor cosmic-ray: the first leaves out decorated functions, and so every
property; the second starts Python and torch anew for each of the hundreds.
"""

import argparse
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]

from mutations.changes import ROOT, Mutation, mutations  # noqa: E402

ROOMS = ("mse", "answers", "results")
# Tests of other rooms that go through these.
FURTHER = ("tests/whole/test_known_truth.py",)
PRELOADED = ("torch", "transformers", "pandas", "scipy.stats", "statsmodels.api",
             "hypothesis", "matplotlib.pyplot", "seaborn", "pydantic", "yaml",
             "_pytest.doctest")  # fmt: skip
QUIET = ("-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist",
         "--hypothesis-seed=0")  # fmt: skip
Tests = dict[str, float]


def listed() -> dict[str, str]:
    """Read the survivors that are known, and why no test notices them."""
    return yaml.safe_load((HERE / "survivors.yaml").read_text("utf-8")) or {}


def files_of(rooms: Iterable[str]) -> list[str]:
    """Files of the rooms, from the root of the project."""
    paths = (path for room in rooms for path in (ROOT / "mse_lab" / room).glob("*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in paths)


def all_mutations(rooms: Iterable[str]) -> list[Mutation]:
    """Every mutation of the rooms, always in the same order."""
    return [one for file in files_of(rooms) for one, _ in mutations(file)]


class Tracer:
    """A pytest plugin: which functions of the rooms each test enters, and its seconds."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = {str(ROOT / file): file for file in files}
        self.entered: dict[str, set[str]] = defaultdict(set)
        self.seconds: Tests = defaultdict(float)
        self._now: set[str] = set()

    def _trace(self, frame, *_):
        if file := self._files.get(frame.f_code.co_filename):
            self._now.add(f"{file} {frame.f_code.co_qualname.replace('.<locals>', '')}")

    def pytest_sessionstart(self) -> None:
        sys.settrace(self._trace)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self._now = self.entered[item.nodeid]
        sys.settrace(self._trace)
        return (yield)

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] += report.duration


class Chosen:
    """A pytest plugin: only these tests, the quickest first; keeps the first failure."""

    def __init__(self, tests: Tests) -> None:
        self._tests, self.failed = tests, ""

    def pytest_collection_modifyitems(self, items):
        chosen = [item for item in items if item.nodeid in self._tests]
        items[:] = sorted(chosen, key=lambda item: self._tests[item.nodeid])

    def pytest_runtest_logreport(self, report):
        if report.failed and not self.failed:
            self.failed = report.nodeid


def run_pytest(paths: Sequence[str], plugin: object) -> int:
    """Run tests quietly in this process."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        return int(pytest.main([*QUIET, *paths], plugins=[plugin]))


def in_a_process(work: Callable[[], str], seconds: float) -> str:
    """Run a function in a forked process; give what it returns, or why there is nothing."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.close(reading)
        signal.alarm(int(seconds))
        try:
            os.write(writing, work().encode())
        except BaseException:
            os.write(writing, f"broken: {traceback.format_exc()}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read().decode()
    os.waitpid(child, 0)
    if found.startswith("broken"):
        raise SystemExit(found)
    return found or "does not end"


def trace(rooms: Sequence[str]) -> tuple[dict[str, set[str]], Tests]:
    """Run the tests of the rooms once; see which functions each enters."""
    paths = [f"{top}/{room}" for top in ("mse_lab", "tests") for room in rooms]
    paths = [path for path in paths if Path(path).exists()]

    def work() -> str:
        tracer = Tracer(files_of(rooms))
        status = run_pytest([*paths, *FURTHER], tracer)
        entered = {test: sorted(names) for test, names in tracer.entered.items()}
        return json.dumps([status, entered, tracer.seconds])

    status, entered, seconds = json.loads(in_a_process(work, 36_000))
    if status:
        raise SystemExit("the tests fail without any mutation")
    return {test: set(names) for test, names in entered.items()}, seconds


def judge(mutation: Mutation, tests: Tests, root: Path = ROOT) -> str:
    """Name the test that notices a mutation; empty where none does."""
    tree = next(tree for one, tree in mutations(mutation.file, root) if one == mutation)
    path, read = str(root / mutation.file), SourceFileLoader.get_code

    def get_code(self, name):
        return compile(tree, path, "exec") if self.path == path else read(self, name)

    def work() -> str:
        SourceFileLoader.get_code = get_code
        chosen = Chosen(tests)
        status = run_pytest(sorted({name.partition("::")[0] for name in tests}), chosen)
        return chosen.failed or ("survives" if status in (0, 5) else f"status {status}")

    found = in_a_process(work, 60 + 20 * sum(tests.values()))
    return "" if found == "survives" else found


def tests_of(mutation: Mutation, entered: dict[str, set[str]], seconds: Tests) -> Tests:
    """Tests that enter the changed function; outside of any, all that enter its file."""

    def inside(whole: bool) -> Tests:
        place = f"{mutation.file} {mutation.function}"
        return {
            test: seconds[test]
            for test, names in entered.items()
            if any(name.startswith(place) if whole else name == place for name in names)
        }

    return inside(whole=False) or inside(whole=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every mutation that survives; the exit status is 1 where one is not listed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", type=int, default=300, help="how many (300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", nargs="+", default=ROOMS)
    chosen = parser.parse_args(arguments)
    for name in PRELOADED:
        importlib.import_module(name)
    every, known = all_mutations(chosen.rooms), listed()
    drawn = random.Random(chosen.seed).sample(every, min(chosen.draw, len(every)))
    print(f"{len(drawn)} of {len(every)} mutations", flush=True)
    entered, seconds = trace(chosen.rooms)
    survivors = []
    for mutation in drawn:
        start = time.monotonic()
        noticed = judge(mutation, tests_of(mutation, entered, seconds))
        survivors += [] if noticed else [str(mutation)]
        said = noticed or f"SURVIVES: {known.get(str(mutation), 'not listed')}"
        print(f"{mutation}\n    {said}  {time.monotonic() - start:.0f} s", flush=True)
    print(f"{len(drawn) - len(survivors)} of {len(drawn)} noticed")
    return int(any(name not in known for name in survivors))


if __name__ == "__main__":
    sys.exit(main())
