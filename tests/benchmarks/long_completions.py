"""One long completion: its score by rules and by a pass of its own, beside a plain pass.

Processor time, which other work on the machine changes little. Memory is the largest
resident set less what was resident before, as in `scaling.py`.
"""

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import tool
from benchmarks.cases import MEDIUM, Case
from benchmarks.scaling import MEGABYTE, PEAK, forget_peak, status
from benchmarks.tables import ratio, table, take_turns


def _measured(work: Callable[[], object], peaks: list[float]) -> Callable[[], float]:
    """Give what returns processor seconds, and notes the memory."""

    def measure() -> float:
        # Else what an earlier way has freed would count as resident, and be used again.
        ctypes.CDLL(None).malloc_trim(0)
        forget_peak()
        before, start = status("VmRSS"), time.process_time()
        work()
        peaks.append((status("VmHWM") - before) / MEGABYTE)
        return time.process_time() - start

    return measure


def report(lengths: tuple[tuple[int, int], ...], folder: Path) -> str:
    """Measure completions of so many tokens in so many rounds, and tabulate them."""
    if not PEAK.exists():
        return "Skipped: memory is read from Linux's /proc."
    loaded, rows = tool.load(Case(MEDIUM, 60, 8), folder), []
    for warm_up in tool.ways_of_one(loaded, 8).values():
        warm_up()
    for length, rounds in lengths:
        ways = tool.ways_of_one(loaded, length)
        peaks: dict[str, list[float]] = {name: [] for name in ways}
        timed = {name: _measured(work, peaks[name]) for name, work in ways.items()}
        times = take_turns(timed, rounds)
        row: list[object] = [length, *(f"{max(peak):.0f}" for peak in peaks.values())]
        row += [ratio(times[name], times["plain"]) for name in [*ways][1:]]
        print(*row, sep=" | ", file=sys.stderr, flush=True)
        rows.append(row)
    _, *others = ways
    head = [*(f"{name}, MB" for name in ways), *(f"{name} / plain" for name in others)]
    return table(["tokens", *head], rows)
