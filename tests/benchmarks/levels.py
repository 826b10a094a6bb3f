"""How often is a verdict false, when it is given?

    python tests/benchmarks/levels.py [NAME ...] [--runs 400] [--quick] [--fresh]

Prompts are drawn from populations whose constants are known, as `advise` looks at them,
until the verdict on TRL's defaults (groups of 8, grpo-std) is to keep or to change the
size, or 6,496 completions are spent. The verdict is held against the exact costs of the
defaults' loss, the numbers beside it against those of the loss that they are said of, at
N = 64 and 1,024 completions a step, and where N is unknown (0); one draw serves all three.
`results/stopping/verdicts.csv` has a row for each population and N; those that are there
with as many runs are left as they are, unless they are named. `--quick` makes
twenty runs of each and writes nothing. Columns, in percent of the runs unless another unit
is given:

    of_loss       said of the user's loss, else of GRPO-type
    regret        what G = 8 costs beyond the best size, in truth, steps or completions
    completions   the median number, and the 90% quantile
    false_keep    kept, though it costs more than 5% more
    false_change  changed, though it costs at most 5% more
    wrong_size    changed to a size that costs more than 5% more than the best
    bound_false   what G = 8 costs at most, or at least, is not so
    saves         the median of what a change is said to save
    saves_held    how often its interval held, of those that are said
    cannot_tell_at_most   the median of the bound where the verdict is `cannot tell`
"""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from designs import VERDICTS, Case
from mse_lab.config.training import DEFAULT
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.mse.rule import Question, Ruling, decide
from mse_lab.mse.samples import Samples
from mse_lab.run.looks import COMPLETIONS, looks
from populations import choose
from simulated import Design
from truths import Truth

TABLE = Path(__file__).resolve().parents[2] / "results/stopping/verdicts.csv"
RUNS, QUICK, BUDGET = 400, 20, 6496
STEPS = (0, 64, 1024)
TRL = Question(DEFAULT.estimator, DEFAULT.group_size)
PRESENT, TOLERANCE, SIZES = TRL.present, TRL.tolerance, TRL.compared
MOST_GRADED = 23
KEYS = ["design", "completions_per_step"]


class Ended(NamedTuple):
    """What one run says when it ends, and what is true."""

    ruling: Ruling
    completions: int
    exact: dict[bool, dict[int, float]]  # `exact_costs`.

    @property
    def costs(self) -> dict[int, float]:
        """Exact costs of the user's loss, over the present size's."""
        return self.exact[True]

    @property
    def costs_said(self) -> dict[int, float]:
        """Those of the loss that the numbers beside the verdict are said of."""
        return self.exact[self.ruling.of_loss]

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
        best, cost = min(self.costs.values()), self.costs.get(self.ruling.set_to, math.inf)
        return self.ruling.verdict == "change" and cost / best - 1 > TOLERANCE

    @property
    def bound_false(self) -> bool:
        """Whether what the present size costs at most, or at least, is not so."""
        regret = 1 / min(self.costs_said.values()) - 1
        return not self.ruling.at_least <= regret <= self.ruling.at_most

    @property
    def saving_held(self) -> bool:
        """Whether what a change saves lies in its interval, where that is said."""
        saves = self.ruling.saves
        true = 1 - self.costs_said[self.ruling.set_to]
        return saves is not None and saves.low <= true <= saves.high


def exact_costs(design: Design, completions: float) -> dict[bool, dict[int, float]]:
    """Exact costs of group sizes: of the user's loss (True), of GRPO-type (False)."""
    truth, loss = Truth(design), "grpo-std(eps=0.0001)"
    # Compositions of graded rewards are too many in large groups, which cost more.
    sizes = [size for size in SIZES if truth.binary or size <= MOST_GRADED]
    return {
        True: truth.costs(loss, sizes, PRESENT, completions),
        False: truth.costs("grpo", SIZES, PRESENT, completions),
    }


def draw_looks(design: Design, rng: np.random.Generator) -> Iterator[list[Any]]:
    """Draw the blocks of the prompts of each look, which hold those of the one before."""
    drawn: list[list[Any]] = []  # The blocks of each prompt.
    for look in looks(design.prompts, BUDGET):
        drawn += [[] for _ in range(len(drawn), look.prompts)]
        missing: dict[int, list[int]] = {}
        for place, blocks in enumerate(drawn):
            for block in look.blocks(place)[len(blocks) :]:
                missing.setdefault(len(block), []).append(place)
        for size, places in missing.items():
            more = choose(design, np.array(places)).sample(rng, size)
            for place, one in zip(places, more, strict=True):
                drawn[place].append(one)
        yield drawn


def run_until(
    case: Case, rng: np.random.Generator, steps: Sequence[float] = STEPS
) -> dict[float, tuple[Ruling, int]]:
    """Draw prompts until there is a verdict at each N or no more look; and how many."""
    whole, found, left = case.whole, {}, set(steps)
    if case.size < math.inf:
        index = rng.permutation(whole.prompts)
    else:
        index = rng.integers(0, whole.prompts, BUDGET // COMPLETIONS)
    for blocks in draw_looks(choose(whole, index), rng):
        samples = Samples.of(blocks)
        table = PromptTable.of_samples(samples, case.size)
        for completions in sorted(left):
            question = TRL._replace(completions=completions)
            decision = decide(table, question)
            found[completions] = decision.ruling, samples.completions
            left -= {completions} if decision.stop else set()
        if not left:
            break
    return found


def percent(truths) -> str:
    """Write a share of some runs; empty where there are none."""
    found = list(truths)
    return f"{100 * np.mean(found):.1f}" if found else ""


def row_of(name: str, completions: int, answers: list[Ended]) -> dict[str, object]:
    """Make a population's row of the table."""
    verdicts = Counter(one.ruling.verdict for one in answers)
    changes = [one for one in answers if one.ruling.verdict == "change"]
    saved = [one.ruling.saves.value for one in changes if one.ruling.saves]
    drawn = [one.completions for one in answers]
    bounds = [one.ruling.at_most for one in answers if one.ruling.verdict == "cannot tell"]
    most = [bound for bound in bounds if math.isfinite(bound)]
    return {
        "design": name,
        "completions_per_step": completions,
        "runs": len(answers),
        "of_loss": percent(one.ruling.of_loss for one in answers),
        "regret": f"{100 * answers[0].regret:.1f}",
        "keep": percent(one.ruling.verdict == "keep" for one in answers),
        "change": percent(one.ruling.verdict == "change" for one in answers),
        "cannot_tell": f"{100 * verdicts['cannot tell'] / len(answers):.1f}",
        "completions": int(np.median(drawn)),
        "completions_90": int(np.quantile(drawn, 0.9)),
        "false_keep": percent(one.false_keep for one in answers),
        "false_change": percent(one.false_change for one in answers),
        "wrong_size": percent(one.wrong_size for one in answers),
        "bound_false": percent(one.bound_false for one in answers),
        "saves": f"{100 * np.median(saved):.0f}" if saved else "",
        "saves_held": percent(one.saving_held for one in changes if one.ruling.saves),
        "cannot_tell_at_most": f"{100 * np.median(most):.0f}" if most else "",
    }


def measure(name: str, runs: int) -> list[dict[str, object]]:
    """Measure a population at each N: make its rows."""
    case, rng = VERDICTS[name], np.random.default_rng(0)
    exact = {steps: exact_costs(case.whole, steps) for steps in STEPS}
    found = [run_until(case, rng) for _ in range(runs)]
    rows = []
    for steps in STEPS:
        answers = [Ended(*one[steps], exact[steps]) for one in found]
        rows.append(row_of(name, steps, answers))
    return rows


def read(path: Path) -> pd.DataFrame:
    """Read the table as text; empty if there is none."""
    if not path.exists():
        return pd.DataFrame(columns=[*KEYS, "runs"], dtype=str)
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def replace_row(path: Path, row: dict[str, object]) -> None:
    """Write a population's row, in the order of the populations."""
    kept, order, new = read(path), [*VERDICTS], pd.DataFrame([row]).astype(str)
    others = (kept[KEYS] != new[KEYS].iloc[0]).any(axis=1)
    table = pd.concat([kept[others], new])
    place = [table.design.map(order.index), table.completions_per_step.astype(int)]
    table = table.iloc[np.lexsort(place[::-1])]
    table.to_csv(path, index=False, lineterminator="\n")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="populations, else all")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} runs, no table")
    parser.add_argument("--fresh", action="store_true", help="measure all again")
    return parser.parse_args()


def main() -> None:
    """Measure what is named, or what the table lacks."""
    asked = parse()
    runs, table = QUICK if asked.quick else asked.runs, read(TABLE)
    done = set(table[table.runs.astype(int) >= runs].design)
    done = set() if asked.fresh or asked.quick or asked.names else done
    todo = [name for name in asked.names or VERDICTS if name not in done]
    with ProcessPoolExecutor() as processes:
        started = [processes.submit(measure, name, runs) for name in todo]
        for row in (row for one in as_completed(started) for row in one.result()):
            print(*row.values(), sep=" | ", flush=True)
            if not asked.quick:
                replace_row(TABLE, row)


if __name__ == "__main__":
    main()
