"""Where the time of a run goes: by stage, by kind of operation, by Python function.

    PYTHONPATH=tests python -m benchmarks.stages            the tiny and the 25M model
    PYTHONPATH=tests python -m benchmarks.stages tiny

Three views, because each hides something. *Operations* times one prompt's sampling,
reference and scoring without a profiler, then once with PyTorch's: the shares of its
operations by kind, the rest being Python and the profiler itself. *Stages* times this
tool's functions in a run by cProfile, with what they call, which makes Python look slower
than it is. *Functions* lists where the interpreter itself spends its time.

With one thread the processor's time is taken, which other work on the machine disturbs
least; with more, wall time.
"""

import cProfile
import pstats
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import tool
from benchmarks.cases import MEDIUM, MEDIUM_WIDE, TINY, Case
from benchmarks.floor import plain_pass
from benchmarks.markdown import table

# Functions that take at least this share of a run are shown.
SHOWN = 0.005

KINDS = {
    "matrix products": ("mm", "addmm", "bmm", "baddbmm", "_scaled_dot_product"),
    "copies": ("copy", "cat", "clone", "contiguous", "fill", "zero", "empty", "stack"),
    "gather and scatter": ("index", "gather", "scatter", "embedding", "unique", "sort"),
    "softmax": ("softmax", "cumsum", "searchsorted", "exp"),
}
OTHER = "element by element"


class Cost(NamedTuple):
    """What one stage costs.

    Attributes:
        seconds: Time without a profiler.
        teraflop: Operations in matrix products and attention, in 10^12.
        by_kind: Share of the profiled time inside PyTorch's operations, by kind.
    """

    seconds: float
    teraflop: float
    by_kind: dict[str, float]


class Calls(NamedTuple):
    """What the calls of one function cost.

    Attributes:
        name: File and name of the function.
        calls: Their number.
        own: Seconds in the function itself.
        inclusive: Seconds with what it calls.
        ours: Whether it is a function of this tool.
    """

    name: str
    calls: int
    own: float
    inclusive: float
    ours: bool


def _kind(operation: str) -> str:
    name = operation.removeprefix("aten::")
    for kind, beginnings in KINDS.items():
        if name.startswith(beginnings) or name.lstrip("_").startswith(beginnings):
            return kind
    return OTHER


def clock() -> float:
    """Read processor time if there is one thread, else wall time, in seconds."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def _seconds(work: Callable[[], object]) -> float:
    start = clock()
    work()
    return clock() - start


def cost_of(work: Callable[[], object]) -> Cost:
    """Measure a stage: once to warm up, three times plainly, once under each counter."""
    work()
    seconds = sorted(_seconds(work) for _ in range(3))[1]
    with FlopCounterMode(display=False) as counter:
        work()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        start = time.perf_counter()
        work()
        whole = time.perf_counter() - start
    by_kind: dict[str, float] = defaultdict(float)
    for event in profiler.key_averages():
        if event.key.startswith("aten::"):
            by_kind[_kind(event.key)] += event.self_cpu_time_total / 1e6 / whole
    return Cost(seconds, counter.get_total_flops() / 1e12, dict(by_kind))


def matrix_speed() -> float:
    """Measure the machine's own speed on a large matrix product, in teraflop a second."""
    left, right = torch.ones(2048, 1024), torch.ones(1024, 1024)
    seconds = min(_seconds(lambda: left @ right) for _ in range(20))
    return 2 * 2048 * 1024 * 1024 / seconds / 1e12


def operations(case: Case, folder: Path) -> str:
    """Tabulate one prompt's sampling, reference and scoring by kind of operation."""
    loaded = tool.load(case, folder)
    size = loaded.probe.pool
    pool = tool.sample(loaded, 0, "reference", size.reference)
    block = tool.sample(loaded, 0, "replicate", max(loaded.probe.group_sizes))
    against = tool.reference(loaded, 0, pool)
    scored, count = tool.Scored(loaded, block, against), size.reference
    stages: dict[str, Callable[[], object]] = {
        f"sampling {count}": partial(tool.sample, loaded, 0, "reference", count),
        f"reference of {count}": partial(tool.reference, loaded, 0, pool),
        f"scoring {len(block)}": scored.products,
        f"plain pass of {len(block)}": partial(plain_pass, scored.work),
    }
    speed = matrix_speed()
    rows = []
    for name, work in stages.items():
        cost = cost_of(work)
        shares = [cost.by_kind.get(kind, 0.0) for kind in (*KINDS, OTHER)]
        shares.append(1 - sum(shares))
        times = [cost.seconds, cost.teraflop / speed]
        rows.append(
            [
                name,
                f"{cost.teraflop:.3f}",
                *(f"{one:.3f}" for one in times),
                *(f"{one:.0%}" for one in shares),
            ]
        )
    head = ["stage", "Tflop", "seconds", "at full speed", *KINDS, OTHER, "Python"]
    note = f"Matrix products at full speed: {1000 * speed:.0f} Gflop a second."
    return f"{table(head, rows)}\n\n{note}"


def profile_run(case: Case, folder: Path, **settings: int) -> tuple[str, str]:
    """Run a probe under cProfile; tabulate its stages, and the functions that cost most."""
    loaded = tool.load(case, folder, **settings)
    prompts = len(loaded.prompts)
    tool.run(loaded, folder / "warm")
    plain = _seconds(lambda: tool.run(loaded, folder / "out"))
    profiler = cProfile.Profile(clock)
    profiler.runcall(tool.run, loaded, folder / "out")
    stats: Any = pstats.Stats(profiler)
    found = [
        Calls(f"`{Path(file).name}` {function}", calls, own, inclusive, "mse_lab" in file)
        for (file, _, function), (_, calls, own, inclusive, _) in stats.stats.items()
    ]
    ours = [one for one in found if one.ours]
    whole = max(one.inclusive for one in ours)
    note = f"{prompts} prompts; {plain:.2f} s without cProfile, {whole:.2f} s with it."
    stages = _tabulate(ours, "inclusive", whole)
    return f"{stages}\n\n{note}", _tabulate(found, "own", whole)


def _tabulate(found: list[Calls], which: str, whole: float) -> str:
    """List the functions by their time, those below a share left out."""
    rows = [
        [one.name, one.calls, f"{time:.3f}", f"{time / whole:.1%}"]
        for one in sorted(found, key=lambda one: -getattr(one, which))
        if (time := getattr(one, which)) >= SHOWN * whole
    ]
    return table(["function", "calls", "seconds", "share"], rows)


CASES = {
    "tiny": (TINY, 10),
    "25M": (Case(MEDIUM, 60, 8), 2),
    "25M-wide": (Case(MEDIUM_WIDE, 60, 8), 2),
}


def main(names: list[str]) -> None:
    """Print the three views of each case."""
    for name in names or ["tiny", "25M"]:
        case, prompts = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            print(f"## {case.model}, {case.shape}\n")
            print(f"### Operations, one prompt\n\n{operations(case, Path(folder))}\n")
            stages, functions = profile_run(case, Path(folder), prompts=prompts)
            print(f"### Stages, a whole run\n\n{stages}\n")
            print(f"### Functions, a whole run\n\n{functions}\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
