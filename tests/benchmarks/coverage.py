"""How often 95% intervals hold the truth, and true statements are said to fail.

`python tests/benchmarks/coverage.py [RUNS] [--bootstrap] [--fixed]`: every number that is
printed with an interval and every verdict, by the public door, on runs whose prompts are
drawn from populations of known laws (`random_prompts.py`, `truths.py`). Counts of every
number are added up in `results/coverage/table.csv` after every ten runs of all populations,
so that it may be stopped; the summary is printed. With `--bootstrap` intervals are the
bootstrap's, and counts are in `bootstrap.csv`. With `--fixed` instead the designs of fixed
prompts of `tests/designs.py`.
"""

import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.random_prompts import SOURCES, population
from benchmarks.tables import table
from benchmarks.truths import Told, Truth, of_advice, of_fixed_prompts, of_side
from benchmarks.truths_of_claims import of_claims
from designs import DESIGNS, cover, refuse
from mse_lab.answers import advice
from simulated import analysed

RUNS, PART, LEVEL = 200, 10, 0.95
OFTEN = 40
SIZES = (4, 16, 64)
UNBIASED = ("vanilla", "grpo", "oracle")
BIASED = ("grpo-std", "maxrl")

KEYS = ["kind", "number", "prompts"]
COUNTS = ["runs", "held", "below", "missed_and_warned"]
OUT = Path(__file__).resolve().parents[2] / "results/coverage"
FILES = {"closed-form": OUT / "table.csv", "bootstrap": OUT / "bootstrap.csv"}
METHOD = "bootstrap" if "--bootstrap" in sys.argv else "closed-form"


def analyse_one(name, seed):
    """Draw a run's prompts and pools; give those prompts' truth and the analysis."""
    source, whole = SOURCES[name], population(name)
    own, pools = source.draw(whole, np.random.default_rng([seed, *map(ord, name)]))
    entries = (*UNBIASED, *(BIASED if Truth(whole).binary else ()))
    sizes = tuple(size for size in SIZES if size <= source.largest)
    draws = {"closed-form": 200, "bootstrap": 1000}[METHOD]
    given = {"estimators": entries, "resamples": draws, "method": METHOD, "seed": seed}
    return Truth(own), analysed(pools, sizes, **given)


def told_by(name, seed) -> tuple[list[Told], bool]:
    """List every number and verdict of a run, and whether it was warned of."""
    whole, (own, result) = Truth(population(name)), analyse_one(name, seed)
    found = [
        *of_fixed_prompts(result, own, LEVEL),
        *of_advice(result.advice, whole),
        of_side(result.advice.regime, whole),
        *of_claims(result, own, whole),
    ]
    return found, bool(result.warnings)


def count(name, told, warned, counts) -> None:
    """Add a run's numbers to the counts."""
    for one in told:
        if one.known:
            held = one.covers
            below = not held and one.truth > one.found.high
            numbers = {
                "runs": 1, "held": held, "below": below, "missed_and_warned": warned > held
            }  # fmt: skip
            for what, number in numbers.items():
                counts[one.kind, one.name, name, what] += int(number)


def tabulate(counts) -> pd.DataFrame:
    """Make the table: one row a number and population."""
    rows = pd.Series(counts).unstack(fill_value=0)[COUNTS]
    rows.index.names = KEYS
    return rows.sort_index()


def summarise(rows) -> str:
    """Tabulate by kind of number: coverage on average, and the least of one number.

    That is of numbers that are told often, such as the costs of all sizes but the best.
    """
    ordinary = [name for name, source in SOURCES.items() if not source.extreme]
    rows = rows[rows.index.get_level_values("prompts").isin(ordinary)]
    lines = []
    for kind, own in rows.groupby(level="kind", sort=False):
        share = 100 * own.held / own.runs
        often = share[own.runs >= min(OFTEN, own.runs.max())]
        worst, missed = often.idxmin(), own.runs - own.held
        lines.append(
            [
                kind,
                f"{int(own.runs.max())}",
                f"{100 * own.held.sum() / own.runs.sum():.1f}",
                f"{often.min():.1f} ({', '.join(filter(None, worst[1:]))})",
                f"{100 * own.missed_and_warned.loc[worst] / max(missed.loc[worst], 1):.0f}",
            ]
        )
    heads = ["number", "runs", "held", "least of one", "of its misses warned of"]
    return table(heads, lines)


def without_curves() -> None:
    """Leave out the curves between sizes: drawn, not printed, and half of the time."""
    advice.CURVE_SIZES = ()


def measure(runs: int) -> pd.DataFrame:
    """Count over runs of all populations, and keep what is counted."""
    counts: Counter = Counter()
    OUT.mkdir(exist_ok=True, parents=True)
    with ProcessPoolExecutor(initializer=without_curves) as processes:
        for first in range(0, runs, PART):
            seeds = range(first, min(first + PART, runs))
            todo = list(product(SOURCES, seeds))
            found = processes.map(told_by, *zip(*todo, strict=True), chunksize=PART)
            for (name, _), (told, warned) in zip(todo, found, strict=True):
                count(name, told, warned, counts)
            tabulate(counts).to_csv(FILES[METHOD], lineterminator="\n")
            print(f"{seeds.stop} runs", file=sys.stderr, flush=True)
    return tabulate(counts)


def percent(number, runs):
    """Write a share."""
    return f"{100 * number / runs:5.1f}"


def show_design(name, runs):
    """Print the mean coverage by kind and group size, and the least of any estimator."""
    made = DESIGNS[name]
    counts = cover(made, runs)
    cells = []
    for kind in ("mse", "law", "ratio"):
        found = [one for (of, _), one in counts.items() if of == kind]
        shares = [one.covered / one.runs for one in found]
        cells.append(f"{100 * np.mean(shares):5.1f} ({100 * min(shares):5.1f})")
    either = [one.either / one.runs for one in counts.values()]
    few = next(iter(counts.values())).few
    false = refuse(made, runs) if "grpo" in made.estimators else None
    verdict = "" if false is None else percent(false, runs)
    mark = "extreme" if made.extreme else ""
    row = [
        f"{name:<30}",
        *cells,
        percent(few, runs),
        f"{100 * min(either):5.1f}",
        verdict,
        mark,
    ]
    print(" | ".join(row), flush=True)


def main() -> None:
    """Measure."""
    words = sys.argv[1:]
    runs = int(next((word for word in words if word.isdigit()), RUNS))
    if "--fixed" not in words:
        rows = measure(runs)
        rows.to_csv(FILES[METHOD], lineterminator="\n")
        print(summarise(rows))
        return
    print(
        "coverage in percent, mean over estimators and G = 4, 16, 64 (least of one); runs"
    )
    print("told of few degrees; least coverage or told; Theorem 2 refused at 5%")
    for name in DESIGNS:
        show_design(name, runs)


if __name__ == "__main__":
    main()
