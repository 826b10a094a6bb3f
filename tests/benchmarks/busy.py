"""Time of a run beside busy processes: `tests/benchmarks/busy.py [PROMPTS] [ROUNDS]`.

Each way for threads to wait runs the three tiny probes in turn, idle and beside three other
processes that multiply matrices with torch's own defaults; in every round all ways, one
after another. PROMPTS limits the prompts of each probe; without it the work is that of
`make figure4`. Seconds are those of a whole command, imports included, medians of ROUNDS;
one that takes longer than `PATIENCE` is ended.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PROBES = ("tiny/base", "tiny/instruct", "tiny/icl")
BUSY = "import torch\na = torch.rand(512, 512)\nwhile True: a @ a"
NEIGHBOURS = (0, 3)
PATIENCE = 1200.0

# What the command sets itself, what OpenMP does unless told otherwise, and what else helps.
WAYS: dict[str, dict[str, str]] = {
    "as the command sets it": {},
    "OpenMP's own default": {"GOMP_SPINCOUNT": "300000"},
    "OMP_WAIT_POLICY=passive": {"OMP_WAIT_POLICY": "passive"},
    "OMP_NUM_THREADS=1": {"OMP_NUM_THREADS": "1"},
}
SETTINGS = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
PLAIN = {name: value for name, value in os.environ.items() if name not in SETTINGS}


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Keep so many other processes busy."""
    words = [sys.executable, "-c", BUSY]
    started = [subprocess.Popen(words, env=PLAIN) for _ in range(count)]
    time.sleep(5 * bool(count))  # torch is loaded, and multiplies
    try:
        yield
    finally:
        for process in started:
            process.kill()


def run(settings: Mapping[str, str], limit: str) -> float:
    """Measure the probes; return the seconds that it took."""
    words = ["--set", f"prompts.limit={limit}", "--out"]
    with tempfile.TemporaryDirectory() as out:
        began = time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "run_mse.py", "run", *PROBES, *words, out],
                cwd=ROOT,
                env=PLAIN | settings,
                check=True,
                capture_output=True,
                timeout=PATIENCE,
            )
        return time.monotonic() - began


def main(limit: str = "null", rounds: str = "3") -> None:
    """Print a table of medians."""
    took: dict[tuple[str, int], list[float]] = {}
    for _ in range(int(rounds)):
        for count in NEIGHBOURS:
            with neighbours(count):
                for way, settings in WAYS.items():
                    took.setdefault((way, count), []).append(run(settings, limit))
    print("| threads wait | alone, s | beside three, s | times |\n|---|--:|--:|--:|")
    for way in WAYS:
        alone, beside = (float(np.median(took[way, count])) for count in NEIGHBOURS)
        print(f"| {way} | {alone:.1f} | {beside:.1f} | {beside / alone:.1f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
