"""What is true where few completions were enough: `python tests/benchmarks/stopping.py`.

Prompts are drawn at random from populations whose constants are known, until a look says
stop or 6,496 completions are spent, 400 runs or as many as are asked for. Told is a group
size; held against the truth are what it costs, what is said of that, and every number that
the screen gives with an interval, at the stopping time:

    python tests/benchmarks/stopping.py [RUNS [POPULATION ...]]

`results/stopping/table.csv` has a row for each population, `coverage.csv` one for each
number of it; those of named populations are replaced. Some half an hour on an idle core.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.stopping_cases import CASES, SIZES, Case, made, regrets_of
from benchmarks.truths import Told as Number
from benchmarks.truths import Truth, of_advice, of_side
from mse_lab.answers import advice
from mse_lab.answers.sampled_run import SampledRun
from mse_lab.measurement.looks import looks
from mse_lab.mse.regret import LARGE
from mse_lab.mse.samples import Samples
from mse_lab.mse.stopping import rarest_seen
from mse_lab.mse.verdict import Decision, decide
from populations import choose
from simulated import Design

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "results" / "stopping" / "table.csv"
RUNS, LEVEL, REGRET, BUDGET = 400, 0.95, 0.05, 6496
LARGEST_SIZE = 1000  # Beyond it no gradient tells prompts apart: c1 is rounding.

# Looks: how many prompts, and the completions of each of their blocks.
Plan = tuple[tuple[int, tuple[int, ...]], ...]
Row = dict[str, object]


def _plan_in_use(prompts: int = BUDGET // 16) -> Plan:
    """List the looks of an advice, by default at more prompts than it has budget for."""
    found = looks(prompts, BUDGET)
    return tuple((look.prompts, tuple(map(len, look.blocks))) for look in found)


LOOKS = _plan_in_use()


class Told(NamedTuple):
    """What one run says when it ends, and what is true of it."""

    decision: Decision
    samples: Samples
    regret: float
    range_regret: float
    seen: bool  # Whether a kind as rare as the population's is among so many prompts.
    warned: bool
    numbers: tuple[Number, ...]

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

    @property
    def best(self) -> Number:
        """G*."""
        return next(one for one in self.numbers if one.kind == "G*")


def draw_looks(design: Design, rng, plan: Plan, most=None) -> Iterator[list[Any]]:
    """Draw the blocks of the prompts of each look, which hold those of the one before."""
    drawn: list[list[Any]] = []  # By block, the prompts that have it.
    for prompts, sizes in plan:
        drawn += [[] for _ in sizes[len(drawn) :]]
        for block, each in zip(drawn, sizes, strict=True):
            more = choose(design, np.arange(len(block), prompts))
            block += more.sample(rng, each, most) if more.prompts else []
        yield list(zip(*drawn, strict=True))


def sample_until(
    case: Case, design: Design, rng, plan: Plan = LOOKS
) -> tuple[Decision, Samples]:
    """Draw prompts until a look says stop, or there are no more looks."""
    index, size = rng.integers(0, design.prompts, plan[-1][0]), math.inf
    if case.size:
        plan, size = _plan_in_use(case.size), case.size
        index = rng.permutation(size)
    for blocks in draw_looks(choose(design, index), rng, plan, case.most):
        decision = decide(blocks, size=size)
        if decision.stop:
            break
    return decision, Samples.of(blocks)


def tell(case: Case, design: Design, regrets, rng, plan: Plan = LOOKS) -> Told:
    """Let one run end, and hold what it says against the truth."""
    decision, samples = sample_until(case, design, rng, plan)
    run = SampledRun("", samples, decision.stop or "budget", LEVEL, REGRET)
    run = replace(run, size=case.size or math.inf)
    said, truth = advice.advise(run), Truth(design)
    choice = decision.choice
    return Told(
        decision,
        samples,
        regrets[choice.size - 2],
        max(regrets[size - 2] for size in choice.near_best),
        case.one_in <= rarest_seen(samples.prompts),
        bool(said.warnings),
        (*of_advice(said, truth), of_side(said.regime, truth)),
    )


def percent(truths: Iterable[bool]) -> str:
    """Write a share of some runs; empty where there are none."""
    found = list(truths)
    return f"{100 * np.mean(found):.1f}" if found else ""


def ends(told: list[Told]) -> Row:
    """Say how soon runs end, and how often what they say then is false."""
    stops = Counter(one.decision.stop for one in told)
    drawn = np.array([one.samples.completions for one in told])
    said, seen = [one for one in told if one.said], [one for one in told if one.seen]
    by_regret = [one for one in told if one.decision.stop == "regret"]
    return {
        "stopped_by_regret": f"{100 * stops['regret'] / len(told):.1f}",
        "stopped_by_width": f"{100 * stops['width'] / len(told):.1f}",
        "completions": int(np.median(drawn)),
        "completions_90": int(np.quantile(drawn, 0.9)),
        "prompts": int(np.median([one.samples.prompts for one in told])),
        # Of the runs that ended by it.
        "false_stops": percent(one.false_decision for one in by_regret),
        "bound_said": percent(one.said for one in told),
        # Of the runs that say one.
        "bound_false": percent(one.bound_false for one in said),
        "range_false": percent(one.range_false for one in said),
        "best_covered": percent(one.best.covers for one in told if one.best.known),
        # Of the runs with so many prompts that a kind as rare is among them.
        "kind_seen": percent(one.seen for one in told),
        "bound_said_seen": percent(one.said for one in seen),
        "bound_false_seen": percent(one.bound_false for one in seen if one.said),
        "range_false_seen": percent(one.range_false for one in seen if one.said),
        "best_covered_seen": percent(one.best.covers for one in seen if one.best.known),
    }


def _log_bias(told: list[Told]) -> str:
    """Say by how much log(G*-1) is too large on average; empty where G* is endless."""
    with np.errstate(all="ignore"):
        pairs = np.array([(one.best.found.value, one.best.truth) for one in told])
        logs = np.log((pairs[:, 0] - 1) / (pairs[:, 1] - 1))
    known = logs[np.isfinite(logs) & (pairs[:, 1] < LARGEST_SIZE)]
    return f"{known.mean():.3f}" if known.size else ""


def row_of(name: str, told: list[Told], regrets) -> Row:
    """Make a population's row of the table."""
    paid = np.array([one.regret for one in told])
    [(size, count)] = Counter(one.decision.choice.size for one in told).most_common(1)
    return {
        "design": name,
        "runs": len(told),
        "best_size": SIZES[np.argmin(regrets)],
        **ends(told),
        "differentiated": int(np.median([one.samples.differentiated for one in told])),
        "told": size,
        "told_share": f"{100 * count / len(told):.1f}",
        "regret_paid": f"{100 * paid.mean():.2f}",
        "regret_paid_95": f"{100 * np.quantile(paid, 0.95):.2f}",
        "regret_paid_most": f"{100 * paid.max():.2f}",
        "regret_above_5": percent(paid > REGRET),
        "warned": percent(one.warned for one in told),
        "log_bias": _log_bias(told),
    }


# What is counted of a number: `known` without the unknown, `ended` with two ends, and how
# many of these hold the truth; `seen` of runs that have a kind as rare.
COUNTS = ("known", "held", "ended", "ended_held", "seen", "seen_held")


def numbers_of(name: str, told: list[Told]) -> list[Row]:
    """Make a row for each number of a population: how often it is told, and true."""
    counts: dict[tuple[str, str], Counter] = {}
    for run in told:
        for one in run.numbers:
            own = counts.setdefault((one.kind, one.name), Counter())
            two_ends = one.known and math.isfinite(one.found.high - one.found.low)
            truths = (one.known, two_ends, two_ends and run.seen)
            for what, true in zip(COUNTS[::2], truths, strict=True):
                own[what] += true
                own[COUNTS[COUNTS.index(what) + 1]] += true and one.covers
    return [
        {"design": name, "kind": kind, "number": number, "runs": len(told)}
        | {what: int(own[what]) for what in COUNTS}
        for (kind, number), own in counts.items()
    ]


def replace_rows(
    path: Path, name: str, rows: list[Row], order: Sequence[str] = tuple(CASES)
) -> None:
    """Replace a population's rows in a file, in the order of the populations."""
    table = pd.DataFrame(rows).astype(str)
    if path.exists():
        kept = pd.read_csv(path, dtype=str, keep_default_na=False)
        table = pd.concat([kept[kept["design"] != name], table])
    table = table.sort_values("design", key=lambda one: one.map(order.index), kind="stable")
    table.to_csv(path, index=False, lineterminator="\n")


def measure(name: str, runs: int) -> None:
    """Measure a population, and write its rows."""
    case, design = CASES[name], made(name)
    regrets, rng = regrets_of(design), np.random.default_rng(0)
    told = [tell(case, design, regrets, rng) for _ in range(runs)]
    row = row_of(name, told, regrets)
    print(*row.values(), sep=" | ", flush=True)
    replace_rows(TABLE, name, [row])
    replace_rows(TABLE.with_name("coverage.csv"), name, numbers_of(name, told))


def main() -> None:
    """Measure all populations, or some of them."""
    advice.CURVE_SIZES = ()  # Drawn, not printed, and half of the time.
    for name in sys.argv[2:] or CASES:
        measure(name, int(sys.argv[1]) if sys.argv[1:] else RUNS)


if __name__ == "__main__":
    main()
