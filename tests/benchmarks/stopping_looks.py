"""Which looks decide soonest: `python tests/benchmarks/stopping_looks.py`.

How soon and how truly a run ends by the prompts and completions of its looks is
`results/stopping/splits.csv`; with `--each` instead how well log(G*-1) is known from 60
prompts by the completions of each, `results/stopping/each.csv`.
"""

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.stopping import BUDGET, LOOKS, TABLE, Plan, Row, ends, tell
from benchmarks.stopping_cases import CASES, made, regrets_of
from benchmarks.truths import Truth
from mse_lab.answers import advice
from mse_lab.arrays import divide
from mse_lab.mse.budget import Population
from mse_lab.mse.samples import Samples
from populations import choose

# Where the completions of each prompt are varied.
VARIED = ("V 0.1 to 0.9", "half easy, half hard", "heavy lengths")
VARIED_EACH, EACH_RUNS, PROMPTS = (8, 12, 16, 32, 64), 100, 60


def _plan(prompts: int, each: int) -> Plan:
    """List looks at half as many prompts again, with completions in one block each."""
    counts = []
    while prompts * each < BUDGET:
        counts.append(prompts)
        prompts += prompts // 2
    return tuple((count, (each,)) for count in (*counts, BUDGET // each))


# What the first look's 384 completions, and all later ones, are divided into.
SPLITS = {
    "in use": LOOKS,
    **{f"{384 // each} x {each}": _plan(384 // each, each) for each in (4, 6, 8, 16)},
}
SPLIT_RUNS = 40
SPLIT_CASES = (*VARIED[:2], *(name for name in CASES if name.startswith("1 in")))


def split_of(name: str, split: str, runs: int) -> Row:
    """Make a row of how soon and how truly runs end by the plan of their looks."""
    case, design = CASES[name], made(name)
    regrets, rng = regrets_of(design), np.random.default_rng(0)
    told = [tell(case, design, regrets, rng, SPLITS[split]) for _ in range(runs)]
    return {"design": name, "split": split, "runs": runs, **ends(told)}


def spread_of(name: str, each: int, runs: int) -> Row:
    """Make a row of how well log(G*-1) is known by the completions of each of 60 prompts.

    `variance` is times completions over those of 60 prompts: of what costs the same.
    """
    design, rng, found = made(name), np.random.default_rng(0), []
    known = Truth(design).constants
    exact = math.log(known.c3.item() / known.c1.item()) / 2
    for _ in range(runs):
        index = rng.integers(0, design.prompts, PROMPTS)
        samples = Samples.of(choose(design, index).sample(rng, each))
        told = Population(samples).constants
        ratio = divide(told.c3, told.c1).item()
        found.append(math.log(ratio) / 2 - exact if ratio > 0 else math.nan)
    logs = np.array(found)
    logs = logs[np.isfinite(logs)]
    return {
        "design": name,
        "completions_each": each,
        "runs": runs,
        "without_value": runs - len(logs),
        "bias": f"{logs.mean():.3f}",
        "deviation": f"{logs.std(ddof=1):.3f}",
        "variance_at_equal_cost": f"{logs.var(ddof=1) * each:.3f}",
    }


def _measure(path: Path, rows) -> None:
    """Print rows as they come, and write them when all are there."""
    found = []
    for row in rows:
        found.append(row)
        print(*row.values(), sep=" | ", flush=True)
    pd.DataFrame(found).to_csv(path, index=False, lineterminator="\n")


def main() -> None:
    """Measure one question or the other."""
    advice.CURVE_SIZES = ()
    if sys.argv[1:] == ["--each"]:
        rows = (spread_of(name, each, EACH_RUNS) for name in VARIED for each in VARIED_EACH)
        _measure(TABLE.with_name("each.csv"), rows)
    else:
        rows = (split_of(name, way, SPLIT_RUNS) for name in SPLIT_CASES for way in SPLITS)
        _measure(TABLE.with_name("splits.csv"), rows)


if __name__ == "__main__":
    main()
