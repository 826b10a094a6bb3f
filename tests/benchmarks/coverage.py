"""How often do 95% intervals hold the truth?

    python tests/benchmarks/coverage.py [NAME ...] [--runs 160]
                                        [--bootstrap | --advice] [--quick]

Every number that is printed with an interval, and every verdict of `claims`, by the public
door, on runs of prompts drawn from the populations of `tests/designs.py`. Counts of every
number are kept in `results/coverage/table.csv`, or `bootstrap.csv` where intervals are the
bootstrap's.
`advice.csv` (`--advice`) has what stands beside the verdict when `advise` stops, at N = 64,
on the populations of verdicts: there how much is drawn depends on what was seen. Runs that
drew a prompt of the rare kind, where there is one, count once more, as `KIND, drawn`. A
design that is there with as many runs is left as it is, unless it is named; so what was
interrupted goes on. `--quick` makes five runs of each and writes nothing. All of it takes
half an hour of two cores.

A verdict counts as an interval that holds the truth where a true statement is not said to
fail. `below` counts truths above the interval, `missed_and_warned` those missed by a run
that carries a warning.
"""

import gc
import math
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.levels import BUDGET, COMPLETIONS, draw_looks, parse
from designs import POPULATIONS, VERDICTS
from mse_lab.answers.advice import make_advice
from mse_lab.mse.samples import Samples
from simulated import analysed, choose, evidence_of
from truths import Answer, Truth, of_advice, of_claims, of_fixed_prompts, of_side

DRAWN = ", drawn"

OUT = Path(__file__).resolve().parents[2] / "results/coverage"
FILES = {name: f"{name}.csv" for name in ("bootstrap", "advice")}
FILES["closed-form"] = "table.csv"
DRAWS, STEPS = {"closed-form": 200, "bootstrap": 1000}, 64
RUNS, QUICK, OFTEN = 160, 5, 40
SIZES = (4, 16, 64)
UNBIASED, SOME_BIASED = ("vanilla", "grpo", "oracle"), ("grpo-std", "maxrl")

KEYS = ["kind", "number", "prompts"]
COUNTS = ["runs", "held", "below", "missed_and_warned"]
Counts = Counter[tuple[str, ...]]


def answers_by(
    name: str, seed: int, method: str = "closed-form"
) -> tuple[list[Answer], bool]:
    """List every number and verdict of a run, and whether it was warned of."""
    source = POPULATIONS[name]
    prompts, pools = source.draw(np.random.default_rng([seed, *map(ord, name)]))
    own, whole = Truth(prompts), source.truth
    result = analysed(
        pools,
        tuple(size for size in SIZES if size <= source.largest),
        estimators=(*UNBIASED, *(SOME_BIASED if whole.binary else ())),
        resamples=DRAWS[method],
        method=method,
        seed=seed,
    )
    advice = result.advice
    found = [*of_fixed_prompts(result, own), *of_claims(result, own, whole)]
    found += [*of_advice(advice, whole), of_side(advice.regime, whole)]
    return found, bool(result.warnings)


def advised_by(name: str, seed: int) -> tuple[list[Answer], bool]:
    """List every number of an advice that ends with its verdict, and whether it warns."""
    case, rng = VERDICTS[name], np.random.default_rng([seed, *map(ord, name)])
    index_P = rng.integers(0, case.whole.prompts, BUDGET // COMPLETIONS)
    for blocks in draw_looks(choose(case.whole, index_P), rng):
        evidence = evidence_of(Samples.of(blocks), completions=STEPS)
        if evidence.ruling.verdict != "cannot tell":
            break
    advice, truth = make_advice(evidence), case.truth
    answers = [*of_advice(advice, truth), of_side(advice.regime, truth)]
    if case.one_in and case.rare_P[index_P[: len(blocks)]].any():
        answers += [replace(one, kind=f"{one.kind}{DRAWN}") for one in answers]
    return answers, bool(advice.warnings)


def count(name: str, answers: Iterable[Answer], warned: bool, counts: Counts) -> None:
    """Add a run's numbers to the counts."""
    for one in answers:
        if one.known:
            held = one.covers
            below = not held and one.truth > one.found.high
            for what, adds in zip(COUNTS, (1, held, below, warned > held), strict=True):
                counts[one.kind, one.name, name, what] += int(adds)


def tabulate(counts: Counts) -> pd.DataFrame:
    """Make the table: one row a number and design."""
    rows = pd.Series(counts).unstack(fill_value=0)[COUNTS]
    rows.index.names = KEYS
    return rows.sort_index()


def measure(name: str, runs: int, method: str) -> pd.DataFrame:
    """Count over the runs of a design."""
    gc.freeze()  # statsmodels collects garbage with every correction of p-values
    counts: Counts = Counter()
    for seed in range(runs):
        found = (
            advised_by(name, seed) if method == "advice" else answers_by(name, seed, method)
        )
        count(name, *found, counts)
    return tabulate(counts)


def read(path: Path) -> pd.DataFrame:
    """Read a table; empty if there is none."""
    if not path.exists():
        return pd.DataFrame(columns=[*KEYS, *COUNTS]).set_index(KEYS)
    return pd.read_csv(path, keep_default_na=False).set_index(KEYS)


def put(path: Path, rows: pd.DataFrame) -> None:
    """Put a design's rows into a table in place of those that it has."""
    kept, names = read(path), rows.index.get_level_values("prompts")
    kept = kept[~kept.index.get_level_values("prompts").isin(names)]
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.concat([kept, rows]).sort_index().to_csv(path, lineterminator="\n")


def by_kind(rows: pd.DataFrame) -> pd.DataFrame:
    """Tabulate, of populations: coverage on average, and the least of one number.

    That is of numbers that are told often, such as the costs of all sizes but the best.
    """
    usual = [name for name, one in POPULATIONS.items() if not one.extreme]
    usual += [name for name in VERDICTS if name not in POPULATIONS]
    rows, lines = rows[rows.index.get_level_values("prompts").isin(usual)], {}
    for kind, own in rows.groupby(level="kind"):
        share = 100 * own.held / own.runs
        often = share[own.runs >= min(OFTEN, own.runs.max())]
        worst = often.idxmin()
        missed = max((own.runs - own.held).loc[worst], 1)
        lines[kind] = {
            "runs": own.runs.max(),
            "held": round(100 * own.held.sum() / own.runs.sum(), 1),
            "least": round(often.min(), 1),
            "of": ", ".join(filter(None, worst[1:])),
            "misses warned of": round(100 * own.missed_and_warned.loc[worst] / missed),
        }
    return pd.DataFrame.from_dict(lines, orient="index")


def main() -> None:
    """Measure what is named, or what the table lacks; print the summary."""
    flags = {"bootstrap": "the bootstrap's intervals", "advice": "advice when it stops"}
    asked = parse(__doc__, RUNS, QUICK, **flags)
    method = "bootstrap" if asked.bootstrap else "closed-form"
    method = "advice" if asked.advice else method
    sources = [name for name, case in VERDICTS.items() if case.size == math.inf]
    sources = sources if asked.advice else [*POPULATIONS]
    runs, path = QUICK if asked.quick else asked.runs, OUT / FILES[method]
    known = read(path).runs.groupby("prompts").max()
    done = set() if asked.fresh or asked.quick else {*known.index[known >= runs]}
    names = asked.names or [name for name in sources if name not in done]
    parts = [] if asked.quick else [read(path)]
    with ProcessPoolExecutor() as processes:
        todo = [processes.submit(measure, name, runs, method) for name in names]
        for one in as_completed(todo):
            parts.append(one.result())
            if not asked.quick:
                put(path, parts[-1])
            print(*parts[-1].index.get_level_values("prompts")[:1], file=sys.stderr)
    found = pd.concat(parts) if asked.quick else read(path)
    print(by_kind(found).to_string())


if __name__ == "__main__":
    main()
