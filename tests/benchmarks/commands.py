"""Commands that need no model, and the share of a run that needs none.

The targets are times, so times are given: `list` under 2 seconds, `figure` under 5, the
tables under 5% of a run.
"""

import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path

from benchmarks import tool
from benchmarks.cases import ROOT, SMALL, TINY, Case
from benchmarks.markdown import table
from benchmarks.pairs import seconds


def _time_command(words: list[str], rounds: int) -> str:
    """Time a command of the tool, median of the rounds after one to warm the disk."""
    run = partial(
        subprocess.run,
        [sys.executable, "run_mse.py", *words],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    run()
    times = [seconds(run) for _ in range(rounds)]
    return f"{statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})"


def _share(loaded: tool.Loaded, folder: Path) -> str:
    tables, whole = tool.time_tables(loaded, folder)
    return f"{tables / whole:.1%}"


def report(prompts: int, folder: Path, rounds: int) -> str:
    """Measure the commands, and the share of the tables in two runs."""
    tiny = tool.load(TINY, folder, prompts=prompts, reference=1024, replicate=256)
    share = _share(tiny, folder / "tables")
    other = _share(tool.load(Case(SMALL, 60, 8), folder, prompts=4), folder / "tables")
    figure = str(folder / "figure4.png")
    rows = [
        ["`run_mse.py list`", _time_command(["list"], rounds), "2 s"],
        ["`run_mse.py figure`", _time_command(["figure", "--out", figure], rounds), "5 s"],
        [f"errors, bootstrap, laws, tables: tiny/base, {prompts} prompts", share, "5%"],
        ["the same: 4M, 60 + 8, 4 prompts", other, "5%"],
    ]
    return table(["what", "measured", "target"], rows)
