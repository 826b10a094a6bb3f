"""What is true where few completions were enough: `python tests/benchmarks/stopping.py`.

Prompts are drawn at random from populations whose constants are known, 16 completions each,
until a look says stop or 6,496 completions are spent, 400 runs or as many as are asked for.
Told is a group size; held against the truth are what it costs, what is said of that, and
the intervals at the stopping time. The table is `results/stopping/table.csv`; some five
minutes on an idle core. With `--each` it measures instead how well log(G*-1) is known from
60 prompts by the completions of each, `results/stopping/each.csv`.
"""

import csv
import math
import sys
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import random_prompts
from benchmarks.regret import bimodal, cost_of, drawn_together
from benchmarks.truths import Truth
from designs import scaled
from mse_lab.arrays import divide
from mse_lab.mse.budget import Population, mse_times_budget
from mse_lab.mse.samples import Samples
from mse_lab.mse.stopping import Decision, decide
from populations import POPULATION, choose, population
from simulated import Design

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "results" / "stopping" / "table.csv"
RUNS, EACH, LEVEL, REGRET = 400, 16, 0.95, 0.05
LOOKS = (24, 36, 54, 81, 121, 181, 271, 406)
SIZES = np.arange(2, 257)
FEWER = (4, 4)

# Where the completions of each prompt are varied.
VARIED = ("V 0.1 to 0.9", "half easy, half hard", "heavy lengths")
VARIED_EACH, EACH_RUNS, PROMPTS = (8, 12, 16, 32, 64), 100, 60


def regrets_of(design: Design):
    """By how much each of `SIZES` costs more than the best of them."""
    cost = mse_times_budget("grpo", Truth(design).constants, SIZES)
    return cost / cost.min() - 1


def where_costs(size: int, regret: float) -> Design:
    """Shrink what tells gradients apart until a size below the best costs so much more."""
    plain, low, high = population(np.random.default_rng(1)), 0.1, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        design = drawn_together(plain, middle)
        larger = regrets_of(design)[size - 2] > regret
        low, high = (middle, high) if larger else (low, middle)
    return design


def _scaled(spread: float) -> Design:
    rng = np.random.default_rng(2)
    scales = np.exp(spread * rng.standard_normal(POPULATION))
    return scaled(population(np.random.default_rng(1)), scales)


def _with_giants() -> Design:
    """One prompt of 60 has scores five times as large."""
    scales = np.where(np.random.default_rng(7).random(POPULATION) < 1 / 60, 5.0, 1.0)
    return scaled(population(np.random.default_rng(1)), scales)


class Case(NamedTuple):
    """A population, and how it is sampled."""

    make: Any
    each: int = EACH
    most: tuple[int, int] | None = None


def _named(name: str):
    return partial(random_prompts.population, name)


CASES = {
    "V 0.1 to 0.9": Case(_named("V 0.1 to 0.9")),
    "the same, 4 + 4 differentiated": Case(_named("V 0.1 to 0.9"), most=FEWER),
    "the same, 4 completions each": Case(_named("V 0.1 to 0.9"), 4),
    "the same, 8 completions each": Case(_named("V 0.1 to 0.9"), 8),
    "the same, 12 completions each": Case(_named("V 0.1 to 0.9"), 12),
    "weak g": Case(_named("weak g")),
    "graded": Case(_named("graded")),
    "half easy, half hard": Case(_named("half easy, half hard")),
    "both, scores e^(0.8 N)": Case(
        lambda: scaled(
            bimodal(np.random.default_rng(3)),
            np.exp(0.8 * np.random.default_rng(5).standard_normal(POPULATION)),
        )
    ),
    "heavy lengths": Case(_named("heavy lengths")),
    "V near 0 or 1 on 70%": Case(_named("V near 0 or 1 on 70%")),
    "V 0.01 to 0.12": Case(_named("V 0.01 to 0.12")),
    "tails tied to V": Case(_named("tails tied to V")),
    "rho = 1, rare, heavy": Case(_named("rho = 1, rare, heavy")),
    "scores e^(1.5 N)": Case(partial(_scaled, 1.5)),
    "one of 60 five times as large": Case(_with_giants),
    "G = 4 costs 6% more": Case(partial(where_costs, 4, 0.06)),
    "G = 8 costs 6% more": Case(partial(where_costs, 8, 0.06)),
    "little tells gradients apart": Case(
        lambda: drawn_together(population(np.random.default_rng(1)), 0.15)
    ),
    "nothing does (c1 = 0)": Case(
        lambda: drawn_together(population(np.random.default_rng(1)), 0.0)
    ),
}


class Told(NamedTuple):
    """What one run says when it ends, and what is true of it."""

    decision: Decision
    completions: int
    differentiated: int
    regret: float
    range_regret: float
    holds: dict[str, bool]
    log_ratio: float


@cache
def made(name: str) -> Design:
    """Make the population of a case."""
    return CASES[name].make()


def sample_until(case: Case, design: Design, rng, looks=LOOKS) -> tuple[Decision, Samples]:
    """Draw prompts until a look says stop, or there are no more looks."""
    index = rng.integers(0, design.prompts, looks[-1])
    blocks: list[Any] = []
    for look in looks:
        more = choose(design, index[len(blocks) : look])
        blocks += [(one,) for one in more.sample(rng, case.each, case.most)]
        decision = decide(blocks, level=LEVEL, regret=REGRET)
        if decision.stop:
            break
    return decision, Samples.of(blocks)


def tell(case: Case, design: Design, regrets, rng, looks=LOOKS) -> Told:
    """Let one run end, and hold what it says against the truth."""
    decision, samples = sample_until(case, design, rng, looks)
    choice, known = decision.choice, Population(samples)
    constants = Truth(design).constants
    with np.errstate(divide="ignore"):
        exact = 1 + np.sqrt(constants.c3 / constants.c1).item()
    best = known.best_group_size(LEVEL)

    def holds(figure) -> bool:
        _, low, high = known.estimate_positive(figure, LEVEL)
        return bool(low <= figure(constants).item() <= high)

    other = 16 if choice.size != 16 else 8
    return Told(
        decision,
        samples.completions,
        samples.differentiated,
        regrets[choice.size - 2],
        max(regrets[size - 2] for size in choice.near_best),
        {
            "best": best.low <= exact <= best.high,
            "other": holds(cost_of("grpo", other, choice.size)),
            "vanilla": holds(cost_of("vanilla", 1, choice.size)),
        },
        math.log((best.value - 1) / (exact - 1)) if best.value < math.inf else math.nan,
    )


def _percent(truths) -> str:
    return f"{100 * np.mean(list(truths)):.1f}"


def row_of(name: str, runs: int) -> dict[str, object]:
    """Make a row of the table."""
    case, design = CASES[name], made(name)
    regrets, rng = regrets_of(design), np.random.default_rng(0)
    told = [tell(case, design, regrets, rng) for _ in range(runs)]
    stops = Counter(one.decision.stop for one in told)
    drawn = np.array([one.completions for one in told])
    paid = np.array([one.regret for one in told])
    bounds = np.array([one.decision.choice.regret for one in told])
    within = np.array([one.decision.choice.near_regret for one in told])
    ranges = np.array([one.range_regret for one in told])
    decided = np.array([one.decision.stop == "regret" for one in told])
    [(size, count)] = Counter(one.decision.choice.size for one in told).most_common(1)
    logs = np.array([one.log_ratio for one in told])
    known = logs[np.isfinite(logs)]
    return {
        "design": name,
        "runs": runs,
        "best_size": SIZES[np.argmin(regrets)],
        "stopped_by_regret": _percent(decided),
        "stopped_by_width": f"{100 * stops['width'] / runs:.1f}",
        "completions": int(np.median(drawn)),
        "completions_90": int(np.quantile(drawn, 0.9)),
        "differentiated": int(np.median([one.differentiated for one in told])),
        "told": size,
        "told_share": f"{100 * count / runs:.1f}",
        "regret_paid": f"{100 * paid.mean():.2f}",
        "regret_paid_95": f"{100 * np.quantile(paid, 0.95):.2f}",
        "regret_above_5": _percent(paid > REGRET),
        "false_decisions": _percent(decided & (paid > REGRET)),
        "bound_false": _percent(paid > bounds),
        "range_false": _percent(ranges > within),
        "best_covered": _percent(one.holds["best"] for one in told),
        "other_covered": _percent(one.holds["other"] for one in told),
        "vanilla_covered": _percent(one.holds["vanilla"] for one in told),
        "log_bias": f"{known.mean():.3f}" if known.size and regrets[-1] else "",
    }


def spread_of(name: str, each: int, runs: int) -> dict[str, object]:
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


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _each() -> None:
    rows = [spread_of(name, each, EACH_RUNS) for name in VARIED for each in VARIED_EACH]
    for row in rows:
        print(*row.values(), sep=" | ", flush=True)
    _write(TABLE.with_name("each.csv"), rows)


def main() -> None:
    """Measure all designs."""
    if sys.argv[1:] == ["--each"]:
        _each()
        return
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    names = sys.argv[2:] or list(CASES)
    rows = []
    for name in names:
        rows.append(row_of(name, runs))
        print(*rows[-1].values(), sep=" | ", flush=True)
    if names == list(CASES) and runs == RUNS:
        _write(TABLE, rows)


if __name__ == "__main__":
    main()
