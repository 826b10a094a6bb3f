"""Time and memory against completions, prompts, parameters, lengths and processes.

Each point is a run in a process of its own, on random Qwen2 models of 9 layers with a
vocabulary of 1,000. Time is that of the run once the model is loaded and every stage has
been called before at a small size; memory is the largest resident set from then on (VmHWM
of Linux, reset) less what was resident before. `ru_maxrss` would not do: a process inherits
its parent's. Powers are fitted on a log-log scale.

Processes have a thread each; what the busiest spent on its prompts is compared, without
the start.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import tool
from benchmarks.cases import ROOT, SMALL, Case, Size, write_probe
from benchmarks.tables import Fit, fit_power, ratio, seconds, table, take_turns

MEGABYTE = 2**20
# Writing 5 here sets a process's peak back.
PEAK = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Point:
    """One run."""

    hidden: int = SMALL.hidden  # Width of the model; the MLP is 8/3 as wide, a head 32.
    prompt: int = 60  # Tokens of a prompt.
    completion: int = 8  # Tokens of a completion.
    prompts: int = 1  # Number of prompts.
    replicate: int = 128  # Replicate pool; the reference's is twice as large.

    @property
    def size(self) -> Size:
        """The model."""
        return Size(
            f"hidden-{self.hidden}",
            SMALL.vocabulary,
            self.hidden,
            8 * self.hidden // 3,
            SMALL.layers,
            self.hidden // 32,
        )

    def settings(self) -> dict[str, Any]:
        """Give the settings of its probe."""
        return {
            "prompts": self.prompts,
            "replicate": self.replicate,
            "reference": 2 * self.replicate,
        }


def _parameters(point: Point) -> int:
    size = point.size
    layer = 3 * size.hidden * (size.hidden + size.inner)
    return size.vocabulary * size.hidden + size.layers * layer


class Cost(NamedTuple):
    """What a run costs."""

    seconds: float  # Time.
    memory: float  # Bytes above what was resident before.


# Name -> points, and where each stands. The first three are to be at most linear.
DIMENSIONS = {
    "completions": [(3 * n, Point(replicate=n)) for n in (128, 256, 512, 1024)],
    "prompts": [(n, Point(prompts=n)) for n in (1, 2, 4, 8)],
    "parameters": [
        (_parameters(point), point)
        for point in (Point(hidden=n) for n in (128, 192, 256, 384))
    ],
    "prompt length": [(n, Point(prompt=n)) for n in (30, 60, 120, 240)],
    "completion length": [(n, Point(completion=n)) for n in (8, 16, 32, 64)],
}
LINEAR = ("completions", "prompts", "parameters")
# What processes share: six prompts.
SHARED = Point(hidden=128, prompts=6)


def status(field: str) -> int:
    """Read a line of this process's memory from the kernel, in bytes."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(text.partition(f"{field}:")[2].split()[0])


def forget_peak() -> None:
    """Set the process's peak back to what it holds now."""
    PEAK.write_text("5", encoding="utf-8")


def run_point(point: Point, folder: Path) -> Cost:
    """Carry out a point's run in this process."""
    case = Case(point.size, point.prompt, point.completion)
    small = tool.load(case, folder, group_sizes=[4], reference=8, replicate=8)
    tool.run(small, folder / "out")
    loaded = tool.load(case, folder, **point.settings())
    forget_peak()
    before = status("VmRSS")
    time = seconds(partial(tool.run, loaded, folder / "out"))
    return Cost(time, status("VmHWM") - before)


def _in_a_process(point: Point) -> Cost:
    words = [sys.executable, "-m", "benchmarks.scaling", json.dumps(asdict(point))]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return Cost(*json.loads(done.stdout.splitlines()[-1]))


def run_processes(point: Point, processes: int, folder: Path) -> float:
    """Run a point on processes of one thread each: seconds of the busiest, as recorded."""
    case, out = Case(point.size, point.prompt, point.completion), folder / "processes"
    probe = write_probe(case, folder, **point.settings())
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    words = [str(ROOT / "run_mse.py"), "run", str(probe), "--out", str(out), "--fresh"]
    subprocess.run(
        [sys.executable, *launch, *words],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=True,
    )
    found = json.loads((out / probe.stem / "environment.json").read_text())
    if found["processes"] != processes:
        raise RuntimeError(f"{found['processes']} processes took part, not {processes}")
    return float(found["seconds"])


def _row(
    name: str, points: Sequence[tuple[float, Point]], costs: list[Cost]
) -> list[object]:
    places = [place for place, _ in points]
    time, memory = (
        fit_power(places, [max(cost[part], 1) for cost in costs]) for part in (0, 1)
    )
    megabytes = ", ".join(f"{cost.memory / MEGABYTE:.0f}" for cost in costs)
    relative = ", ".join(f"{cost.seconds / costs[0].seconds:.2f}" for cost in costs)
    shown = ", ".join(f"{place:,.0f}" for place in places)
    verdict = ""
    if name in LINEAR:
        verdict = "yes" if all(map(at_most_linear, (time, memory))) else "NO"
    return [name, shown, relative, time, megabytes, memory, verdict]


def at_most_linear(fit: Fit) -> bool:
    """Whether an exponent is at most 1, within two of its standard errors."""
    return bool(fit.exponent - 2 * fit.error <= 1.0)


def report(dimensions: tuple[str, ...], points: int, processes: int, folder: Path) -> str:
    """Measure and tabulate: so many points of each dimension, from the smallest.

    `processes` is the rounds of one process against two; 0 leaves them out.
    """
    if not PEAK.exists():
        return "Skipped: memory is read from Linux's /proc."
    rows = []
    for name in dimensions:
        chosen = DIMENSIONS[name][:points]
        rows.append(_row(name, chosen, [_in_a_process(point) for _, point in chosen]))
    head = [
        "against",
        "at",
        "time, relative",
        "power",
        "memory, MB",
        "power",
        "at most linear",
    ]
    text = table(head, rows)
    if not processes:
        return text
    ways = {str(count): partial(run_processes, SHARED, count, folder) for count in (1, 2)}
    times = take_turns(ways, processes)
    return f"{text}\n\nOne process / two, a thread each: {ratio(times['1'], times['2'])}."


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(run_point(Point(**json.loads(sys.argv[1])), Path(name))))
