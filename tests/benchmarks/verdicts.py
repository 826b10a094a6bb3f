"""How often a verdict is false: `python tests/benchmarks/verdicts.py [RUNS [NAME ...]]`.

As in `stopping.py`, prompts are drawn from populations whose constants are known, until the
verdict on TRL's defaults (groups of 8, grpo-std) is to keep or to change the size, or 6,496
completions are spent; 400 runs each. What is said is held against the exact costs of the
loss that it is said of. `results/stopping/verdicts.csv` has a row for each population.
"""

import math
import sys
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.regret import drawn_together
from benchmarks.stopping import LOOKS, TABLE, draw_looks, percent, replace_rows
from benchmarks.stopping_cases import CASES, Case, made
from benchmarks.truths import TRL, Truth
from mse_lab.measurement.looks import COMPLETIONS
from mse_lab.mse.own_loss import Aim
from mse_lab.mse.regret import COMPARED
from mse_lab.mse.samples import Samples
from mse_lab.mse.verdict import Decision, Question, Ruling, decide
from populations import choose, population
from simulated import Design

RUNS = 400
QUESTION = Question()
PRESENT, TOLERANCE = QUESTION.present, QUESTION.tolerance
SIZES = sorted({*COMPARED, PRESENT})


def own_costs_of(design: Design) -> dict[int, float]:
    """Exact costs of groups of the user's loss over the present size's."""
    truth = Truth(design)
    aims = {size: Aim.of(truth.direction(TRL, size), size) for size in SIZES}
    aims = {size: Aim(*map(np.array, aim)) for size, aim in aims.items()}
    base = aims[PRESENT]
    return {size: aim.cost(base, QUESTION.budget).item() for size, aim in aims.items()}


def grpo_costs_of(design: Design) -> dict[int, float]:
    """Exact costs of groups of GRPO-type over the present size's."""
    truth = Truth(design)
    return {size: truth.cost(size) / truth.cost(PRESENT) for size in SIZES}


def where_present_costs(regret: float) -> Design:
    """Shrink what tells gradients apart until the present size costs so much more."""
    plain, low, high = population(np.random.default_rng(1)), 0.1, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        design = drawn_together(plain, middle)
        # Smaller groups are better where gradients differ more.
        costs = own_costs_of(design)
        too_large = max(costs, key=lambda size: -costs[size]) < PRESENT
        above = 1 / min(costs.values()) - 1 > regret
        low, high = (low, middle) if above and too_large else (middle, high)
    return design


CASES_OF_VERDICTS = {
    **{
        name: CASES[name]
        for name in (
            *("V 0.1 to 0.9", "weak g", "graded", "half easy, half hard"),
            *("both, scores e^(0.8 N)", "heavy lengths", "V 0.01 to 0.12"),
            *("G = 8 costs 6% more", "little tells gradients apart"),
        )
    },
    "yours costs 4% more": Case(partial(where_present_costs, 0.04)),
    "yours costs 6% more": Case(partial(where_present_costs, 0.06)),
}


@cache
def design_of(name: str) -> Design:
    """Make the population of a case."""
    return made(name) if name in CASES else CASES_OF_VERDICTS[name].make()


class Told(NamedTuple):
    """What one run says when it ends, and what is true."""

    ruling: Ruling
    completions: int
    costs: dict[int, float]  # Exact, of the loss that it speaks of.

    @property
    def regret(self) -> float:
        """What the present size costs beyond the best."""
        return 1 / min(self.costs.values()) - 1

    @property
    def false_keep(self) -> bool:
        """Whether it keeps a size that costs more than is all right."""
        return self.ruling.verdict == "keep" and self.regret > TOLERANCE

    @property
    def false_change(self) -> bool:
        """Whether it changes a size that is all right."""
        return self.ruling.verdict == "change" and self.regret <= TOLERANCE

    @property
    def wrong_size(self) -> bool:
        """Whether the size to set costs more than is all right."""
        best = min(self.costs.values())
        changes = self.ruling.verdict == "change"
        return changes and self.costs[self.ruling.set_to] / best - 1 > TOLERANCE

    @property
    def bound_false(self) -> bool:
        """Whether what the present size costs at most, or at least, is not so."""
        return not self.ruling.at_least <= self.regret <= self.ruling.at_most

    @property
    def saving_held(self) -> bool:
        """Whether what a change saves lies in its interval."""
        saves = self.ruling.saves
        true = 1 - self.costs[self.ruling.set_to]
        return saves is not None and saves.low <= true <= saves.high


def run_until(design: Design, rng, most=None, looks=LOOKS) -> tuple[Decision, list]:
    """Draw prompts until there is a verdict, or there are no more looks."""
    index = rng.integers(0, design.prompts, looks[-1][0])
    for blocks in draw_looks(choose(design, index), rng, looks, most):
        decision = decide(blocks, QUESTION, awaited=COMPLETIONS)
        if decision.stop == "regret":
            break
    return decision, blocks


def row_of(name: str, told: list[Told]) -> dict[str, object]:
    """Make a population's row of the table."""
    verdicts = Counter(one.ruling.verdict for one in told)
    changes = [one for one in told if one.ruling.verdict == "change"]
    open_ = [one for one in told if one.ruling.verdict == "cannot tell"]
    saved = [one.ruling.saves.value for one in changes if one.ruling.saves]
    drawn = np.array([one.completions for one in told])
    most = [one.ruling.at_most for one in open_ if math.isfinite(one.ruling.at_most)]
    return {
        "design": name,
        "runs": len(told),
        "own_loss": percent(one.ruling.own_loss for one in told),
        "regret": f"{100 * told[0].regret:.1f}",
        **{key.replace(" ", "_"): f"{100 * verdicts[key] / len(told):.1f}"
           for key in ("keep", "change", "cannot tell")},
        "completions": int(np.median(drawn)),
        "completions_90": int(np.quantile(drawn, 0.9)),
        "false_keep": percent(one.false_keep for one in told),
        "false_change": percent(one.false_change for one in told),
        "wrong_size": percent(one.wrong_size for one in told),
        "bound_false": percent(one.bound_false for one in told),
        "saves": f"{100 * np.median(saved):.0f}" if saved else "",
        "saves_held": percent(one.saving_held for one in changes),
        "cannot_tell_at_most": f"{100 * np.median(most):.0f}" if most else "",
    }  # fmt: skip


def measure(name: str, runs: int) -> None:
    """Measure a population, and write its row."""
    case, design = CASES_OF_VERDICTS[name], design_of(name)
    rng, told = np.random.default_rng(0), []
    binary = Truth(design).binary
    exact = {False: grpo_costs_of(design), True: own_costs_of(design) if binary else {}}
    for _ in range(runs):
        decision, blocks = run_until(design, rng, case.most)
        ruling, completions = decision.ruling, Samples.of(blocks).completions
        told.append(Told(ruling, completions, exact[ruling.own_loss]))
    row = row_of(name, told)
    print(*row.values(), sep=" | ", flush=True)
    replace_rows(TABLE.with_name("verdicts.csv"), name, [row], [*CASES_OF_VERDICTS])


def main() -> None:
    """Measure all populations, or some of them."""
    for name in sys.argv[2:] or CASES_OF_VERDICTS:
        measure(name, int(sys.argv[1]) if sys.argv[1:] else RUNS)


if __name__ == "__main__":
    main()
