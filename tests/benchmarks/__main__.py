"""`make bench`: measure everything, print it, and put it into the pages of results."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks import (
    long_completions,
    precision,
    scaling,
    scoring,
    whole_run,
)
from benchmarks.cases import ROOT
from benchmarks.log import heading, replace_marked
from benchmarks.plan import FULL, QUICK, Plan

RATIOS = "ratios of times: median (smallest to largest)"


def sections(plan: Plan, folder: Path) -> dict[str, tuple[str, Callable[[], str]]]:
    """List what is measured: short name -> title, and what measures and tabulates it."""
    return {
        "scoring": (
            f"Scoring a block of N completions, {RATIOS}",
            lambda: scoring.report(plan.blocks, folder, plan.rounds),
        ),
        "long": (
            f"One long completion, {RATIOS}",
            lambda: long_completions.report(plan.long, folder),
        ),
        "runs": (
            f"Whole runs, {RATIOS}",
            lambda: whole_run.report(plan.runs, folder, plan.rounds),
        ),
        "precision": (
            "Completions at equal precision",
            lambda: precision.report(*plan.precision, folder),
        ),
        "scaling": (
            "Scaling",
            lambda: scaling.report(plan.scaling, plan.points, plan.process_rounds, folder),
        ),
    }


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer shapes, ten minutes")
    parser.add_argument("--only", action="append", metavar="SECTION", help="scoring, ...")
    parser.add_argument("--print", action="store_true", help="change no file")
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    arguments = parse()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    form, plan = ("quick form", QUICK) if arguments.quick else ("full form", FULL)
    title, versions = heading(ROOT)
    # Read before anything is run: what else the machine is doing.
    first = f"`make bench`, {form}, load at the start {os.getloadavg()[0]:.1f}. {versions}"
    parts = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (heads, measure) in sections(plan, Path(folder)).items():
            if not arguments.only or name in arguments.only:
                began = time.monotonic()
                parts[name] = f"**{heads}**\n\n{measure()}"
                print(f"{parts[name]}\n", flush=True)
                minutes = (time.monotonic() - began) / 60
                print(f"{name}: {minutes:.1f} minutes", file=sys.stderr)
    if not arguments.print:
        content = "\n\n".join([f"{title}. {first}", *parts.values()])
        replace_marked(ROOT / "results/COST.md", content)


if __name__ == "__main__":
    main()
