"""What is true where few completions were enough: `python tests/benchmarks/stopping.py`.

Prompts are drawn at random from populations whose constants are known, until a look says
stop or 6,496 completions are spent, 400 runs or as many as are asked for. Told is a group
size; held against the truth are what it costs, what is said of that, and the intervals at
the stopping time. The table is `results/stopping/table.csv`; some five minutes on an idle
core. `--each` measures instead how well log(G*-1) is known from 60 prompts by the
completions of each, `results/stopping/each.csv`; `--splits` how soon and how truly a run
ends by the prompts and completions of its looks, `results/stopping/splits.csv`.
"""

import csv
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.regret import cost_of
from benchmarks.stopping_cases import CASES, SIZES, Case, made, regrets_of
from benchmarks.truths import Truth
from mse_lab.arrays import divide
from mse_lab.measurement.looks import looks
from mse_lab.mse.budget import Population
from mse_lab.mse.regret import LARGE
from mse_lab.mse.samples import Samples
from mse_lab.mse.stopping import Decision, decide, rarest_seen
from populations import choose
from simulated import Design

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "results" / "stopping" / "table.csv"
RUNS, LEVEL, REGRET, BUDGET = 400, 0.95, 0.05, 6496

# Where the completions of each prompt are varied.
VARIED = ("V 0.1 to 0.9", "half easy, half hard", "heavy lengths")
VARIED_EACH, EACH_RUNS, PROMPTS = (8, 12, 16, 32, 64), 100, 60

# Looks: how many prompts, and the completions of each of their blocks.
Plan = tuple[tuple[int, tuple[int, ...]], ...]


def _plan_in_use() -> Plan:
    """List the looks of an advice at more prompts than the budget lets it see."""
    found = looks(BUDGET // 16, BUDGET)
    return tuple((look.prompts, tuple(map(len, look.blocks))) for look in found)


def _plan(prompts: int, each: int) -> Plan:
    """List looks at half as many prompts again, with completions in one block each."""
    counts = []
    while prompts * each < BUDGET:
        counts.append(prompts)
        prompts += prompts // 2
    return tuple((count, (each,)) for count in (*counts, BUDGET // each))


LOOKS = _plan_in_use()

# What the first look's 384 completions, and all later ones, are divided into.
SPLITS = {
    "in use": LOOKS,
    **{f"{384 // each} x {each}": _plan(384 // each, each) for each in (4, 6, 8, 16)},
}
SPLIT_RUNS = 120
SPLIT_CASES = (*VARIED, "G = 4 costs 6% more", *(name for name in CASES if "1 in" in name))


class Told(NamedTuple):
    """What one run says when it ends, and what is true of it."""

    decision: Decision
    prompts: int
    completions: int
    differentiated: int
    regret: float
    range_regret: float
    holds: dict[str, bool]
    log_ratio: float

    @property
    def said(self) -> bool:
        """Whether it says a bound of the regret."""
        return self.decision.choice.regret <= LARGE

    @property
    def false_decision(self) -> bool:
        """Whether it ended for a regret that is larger."""
        return self.decision.stop == "regret" and self.regret > REGRET

    @property
    def bound_false(self) -> bool:
        """Whether it says a bound that is below the truth."""
        return self.said and self.regret > self.decision.choice.regret

    @property
    def range_false(self) -> bool:
        """Whether a size of the range that it says costs more."""
        return self.said and self.range_regret > self.decision.choice.near_regret


def sample_until(
    case: Case, design: Design, rng, plan: Plan = LOOKS
) -> tuple[Decision, Samples]:
    """Draw prompts until a look says stop, or there are no more looks."""
    index = rng.integers(0, design.prompts, plan[-1][0])
    drawn: list[list[Any]] = []  # By block, the prompts that have it.
    for prompts, sizes in plan:
        drawn += [[] for _ in sizes[len(drawn) :]]
        for block, size in zip(drawn, sizes, strict=True):
            more = choose(design, index[len(block) : prompts])
            block += more.sample(rng, size, case.most) if more.prompts else []
        blocks = list(zip(*drawn, strict=True))
        decision = decide(blocks, level=LEVEL, regret=REGRET)
        if decision.stop:
            break
    return decision, Samples.of(blocks)


def tell(case: Case, design: Design, regrets, rng, plan: Plan = LOOKS) -> Told:
    """Let one run end, and hold what it says against the truth."""
    decision, samples = sample_until(case, design, rng, plan)
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
        samples.prompts,
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
    """Write a share of some runs; empty where there are none."""
    found = list(truths)
    return f"{100 * np.mean(found):.1f}" if found else ""


def _ends(told: list[Told], case: Case) -> dict[str, object]:
    """Say how soon runs end, and how often what they say then is false."""
    stops = Counter(one.decision.stop for one in told)
    drawn = np.array([one.completions for one in told])
    said = [one for one in told if one.said]
    seen = [one for one in told if 0 < case.one_in <= rarest_seen(one.prompts)]
    return {
        "stopped_by_regret": _percent(one.decision.stop == "regret" for one in told),
        "stopped_by_width": f"{100 * stops['width'] / len(told):.1f}",
        "completions": int(np.median(drawn)),
        "completions_90": int(np.quantile(drawn, 0.9)),
        "prompts": int(np.median([one.prompts for one in told])),
        "false_decisions": _percent(one.false_decision for one in told),
        "bound_said": _percent(one.said for one in told),
        "bound_false": _percent(one.bound_false for one in said),
        "range_false": _percent(one.range_false for one in said),
        "best_covered": _percent(one.holds["best"] for one in told),
        # Of the runs with so many prompts that a kind as rare is among them.
        "kind_seen": f"{100 * len(seen) / len(told):.1f}" if case.one_in else "",
        "bound_false_seen": _percent(one.bound_false for one in seen if one.said),
        "range_false_seen": _percent(one.range_false for one in seen if one.said),
        "best_covered_seen": _percent(one.holds["best"] for one in seen),
    }


def row_of(name: str, runs: int) -> dict[str, object]:
    """Make a row of the table."""
    case, design = CASES[name], made(name)
    regrets, rng = regrets_of(design), np.random.default_rng(0)
    told = [tell(case, design, regrets, rng) for _ in range(runs)]
    paid = np.array([one.regret for one in told])
    [(size, count)] = Counter(one.decision.choice.size for one in told).most_common(1)
    logs = np.array([one.log_ratio for one in told])
    known = logs[np.isfinite(logs)]
    return {
        "design": name,
        "runs": runs,
        "best_size": SIZES[np.argmin(regrets)],
        **_ends(told, case),
        "differentiated": int(np.median([one.differentiated for one in told])),
        "told": size,
        "told_share": f"{100 * count / runs:.1f}",
        "regret_paid": f"{100 * paid.mean():.2f}",
        "regret_paid_95": f"{100 * np.quantile(paid, 0.95):.2f}",
        "regret_above_5": _percent(paid > REGRET),
        "other_covered": _percent(one.holds["other"] for one in told),
        "vanilla_covered": _percent(one.holds["vanilla"] for one in told),
        "log_bias": f"{known.mean():.3f}" if known.size and regrets[-1] else "",
    }


def split_of(name: str, split: str, runs: int) -> dict[str, object]:
    """Make a row of how soon and how truly runs end by the plan of their looks."""
    case, design = CASES[name], made(name)
    regrets, rng = regrets_of(design), np.random.default_rng(0)
    told = [tell(case, design, regrets, rng, SPLITS[split]) for _ in range(runs)]
    return {"design": name, "split": split, "runs": runs, **_ends(told, case)}


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


def _measure(path: Path, rows) -> None:
    """Print rows as they come, and write them when all are there."""
    found = []
    for row in rows:
        found.append(row)
        print(*row.values(), sep=" | ", flush=True)
    _write(path, found)


def main() -> None:
    """Measure all designs, or one question of them."""
    if sys.argv[1:] == ["--each"]:
        rows = (spread_of(name, each, EACH_RUNS) for name in VARIED for each in VARIED_EACH)
        _measure(TABLE.with_name("each.csv"), rows)
    elif sys.argv[1:] == ["--splits"]:
        rows = (split_of(name, way, SPLIT_RUNS) for name in SPLIT_CASES for way in SPLITS)
        _measure(TABLE.with_name("splits.csv"), rows)
    elif sys.argv[1:]:
        for name in sys.argv[2:] or CASES:
            print(*row_of(name, int(sys.argv[1])).values(), sep=" | ", flush=True)
    else:
        _measure(TABLE, (row_of(name, RUNS) for name in CASES))


if __name__ == "__main__":
    main()
