"""Would the suite notice? `python tests/mutations/run.py [--draw 300] [--rooms mse ...]`.

Mutations of the rooms (`changes.py`) are drawn at random, the same for the same seed. Each
is put, alone, into a process in which the tests are collected already: functions get the
changed code. Those tests that enter the changed function run there, the quickest and those
of its file first, until one fails or the time is over. What a module does when it is
imported is changed in a process that has only the libraries loaded. What survives must
stand in `survivors.yaml`, with the reason why no test should notice it.

Neither mutmut nor cosmic-ray: the first leaves out decorated functions, and so every
property; the second starts Python and torch anew for each of the hundreds.
"""

import argparse
import ast
import builtins
import gc
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FunctionType

import pytest
import yaml

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]

from mutations.changes import (  # noqa: E402
    ROOT,
    Mutation,
    acts_at_import,
    change,
    marked,
    mutations,
    tree_of,
)  # fmt: skip

ROOMS = ("mse", "answers", "results")
# Tests of other rooms that go through these.
FURTHER = ("tests/whole/test_known_truth.py",)
PRELOADED = ("torch", "transformers", "pandas", "scipy.stats", "statsmodels.api",
             "hypothesis", "matplotlib.pyplot", "seaborn", "pydantic", "yaml",
             "_pytest.doctest")  # fmt: skip
QUIET = ("-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist",
         "--hypothesis-seed=0")  # fmt: skip
BROKEN = "broken"
Tests = dict[str, float]


def listed() -> dict[str, str]:
    """Read the survivors that are known, and why no test notices them."""
    return yaml.safe_load((HERE / "survivors.yaml").read_text("utf-8")) or {}


def files_of(rooms: Iterable[str]) -> list[str]:
    """Files of the rooms, from the root of the project."""
    paths = (path for room in rooms for path in (ROOT / "mse_lab" / room).glob("*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in paths)


def paths_of(rooms: Iterable[str]) -> list[str]:
    """Where the tests of the rooms are."""
    places = (f"{top}/{room}" for room in rooms for top in ("mse_lab", "tests"))
    return [*(place for place in places if Path(place).exists()), *FURTHER]


def all_mutations(rooms: Iterable[str]) -> list[Mutation]:
    """Every mutation of the rooms, always in the same order."""
    return [one for file in files_of(rooms) for one, _ in mutations(file)]


class Tracer:
    """A pytest plugin: which functions of the rooms each test enters, and its seconds."""

    def __init__(self, files: Iterable[str]) -> None:
        self.entered: dict[str, set[str]] = defaultdict(set)
        self.seconds: Tests = {}
        self.failed = ""
        self._now: set[str] = set()
        # By a line in each function: sys.settrace would see every call of every library.
        builtins.mutations_enter = lambda name: self._now.add(name)
        compile_from({str(ROOT / file): marked(file) for file in files})

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.failed = report.nodeid

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self._now = self.entered[item.nodeid]
        start = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - start
        return result


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


class Judge(Chosen):
    """A pytest plugin: instead of running all tests, runs each mutation's in a process."""

    def __init__(
        self, tests: Mapping[Mutation, Tests], tell: Callable, most: float
    ) -> None:
        super().__init__({name: one[name] for one in tests.values() for name in one})
        self._by_mutation, self._tell, self._most = tests, tell, most

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session) -> bool:
        functions = [one for one in gc.get_objects() if type(one) is FunctionType]
        gc.freeze()
        items = {item.nodeid: item for item in session.items}
        for mutation, tests in self._by_mutation.items():
            # A test of the file itself goes before one of another, ten times as quick.
            stem = Path(mutation.file).stem
            waits = {one: tests[one] * (1 if stem in one else 10) for one in tests}
            chosen = sorted(waits.keys() & items.keys(), key=waits.__getitem__)
            work = partial(self._run, mutation, functions, [items[one] for one in chosen])
            self._tell(mutation, in_a_process(work, sum(tests.values())))
        return True

    def _run(self, mutation: Mutation, functions: Sequence[FunctionType], items) -> str:
        change(functions, mutation)
        for item, following in zip(items, [*items[1:], None], strict=False):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed or time.process_time() > self._most:
                break
        return self.failed or "survives"


def compile_from(trees: Mapping[str, ast.Module]) -> None:
    """Let modules that are imported from now on have these trees, by path."""
    read = SourceFileLoader.get_code

    def get_code(self, name):
        tree = trees.get(self.path)
        return compile(tree, self.path, "exec") if tree else read(self, name)

    SourceFileLoader.get_code = get_code


def run_pytest(paths: Sequence[str], plugin: object) -> int:
    """Run tests quietly in this process."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        return int(pytest.main([*QUIET, *paths], plugins=[plugin]))


def in_a_process(work: Callable[[], str], seconds: float) -> str:
    """Run a function in a forked process; give what it returns, or why there is nothing.

    It may take five times the processor's seconds that it should, and ten more.
    """
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.close(reading)
        signal.setitimer(signal.ITIMER_PROF, 10 + 5 * seconds)
        try:
            os.write(writing, work().encode())
        except BaseException:
            os.write(writing, f"{BROKEN}: {traceback.format_exc()}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read().decode()
    os.waitpid(child, 0)
    return found or "does not end"


def trace(rooms: Sequence[str]) -> tuple[dict[str, set[str]], Tests]:
    """Run the tests of the rooms once; see which functions each enters."""

    def work() -> str:
        tracer = Tracer(files_of(rooms))
        status = run_pytest(paths_of(rooms), tracer)
        entered = {test: sorted(names) for test, names in tracer.entered.items()}
        return json.dumps([status, tracer.failed, entered, tracer.seconds])

    if (found := in_a_process(work, 36_000)).startswith(BROKEN):
        raise SystemExit(found)
    status, failed, entered, seconds = json.loads(found)
    if status:
        raise SystemExit(f"the tests fail without any mutation: {failed or status}")
    return {test: set(names) for test, names in entered.items()}, seconds


def judge(mutation: Mutation, tests: Tests, root: Path = ROOT) -> str:
    """Name the test that notices a mutation, in a process that imports the program anew."""
    tree = tree_of(mutation, root)

    def work() -> str:
        compile_from({str(root / mutation.file): tree})
        chosen = Chosen(tests)
        status = run_pytest(sorted({name.partition("::")[0] for name in tests}), chosen)
        return chosen.failed or ("survives" if status in (0, 5) else f"status {status}")

    return in_a_process(work, 10 + sum(tests.values()))


def tests_of(mutation: Mutation, entered: dict[str, set[str]], seconds: Tests) -> Tests:
    """Tests that enter the changed function; outside of any, all that enter its file.

    And those beside them in a file, for which another test's fixture may have entered it.
    """

    def inside(whole: bool) -> Tests:
        place = f"{mutation.file} {mutation.function}"
        return {
            test: seconds[test]
            for test, names in entered.items()
            if any(name.startswith(place) if whole else name == place for name in names)
        }

    found = inside(whole=False) or inside(whole=True)
    own = f"/test_{Path(mutation.file).stem}.py::"
    beside = {one: seconds[one] for one in seconds if own in one} if found else {}
    return beside | found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every mutation that survives; the exit status is 1 where one is not listed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draw", type=int, default=300, help="how many (300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", nargs="+", default=ROOMS)
    parser.add_argument("--seconds", type=float, default=60, help="for each (60)")
    chosen = parser.parse_args(arguments)
    for name in PRELOADED:
        importlib.import_module(name)
    every, known = all_mutations(chosen.rooms), listed()
    drawn = random.Random(chosen.seed).sample(every, min(chosen.draw, len(every)))
    screen = os.fdopen(os.dup(1), "w", buffering=1)
    print(f"{len(drawn)} of {len(every)} mutations", file=screen)
    entered, seconds = trace(chosen.rooms)
    tests = {one: tests_of(one, entered, seconds) for one in drawn}
    survivors, noticed = [], []

    def tell(mutation: Mutation, found: str) -> None:
        if found == "survives":
            survivors.append(str(mutation))
            found = f"SURVIVES: {known.get(str(mutation), 'not listed')}"
        elif not found.startswith(BROKEN):
            noticed.append(mutation)
        print(f"{mutation}\n    {found}", file=screen)

    for one in filter(acts_at_import, drawn):
        tell(one, judge(one, tests.pop(one)))
    run_pytest(paths_of(chosen.rooms), Judge(tests, tell, chosen.seconds))
    left = len(drawn) - len(noticed) - len(survivors)
    print(f"{len(noticed)} of {len(drawn)} noticed, {left} not judged", file=screen)
    return int(left > 0 or any(name not in known for name in survivors))


if __name__ == "__main__":
    sys.exit(main())
