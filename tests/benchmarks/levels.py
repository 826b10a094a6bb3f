"""How often is a verdict false, when it is given?

    python tests/benchmarks/levels.py [NAME ...] [--runs 400] [--quick] [--fresh]

Prompts are drawn from populations whose constants are known, as `advise` looks at them,
until the verdict on TRL's defaults (groups of 8, grpo-std) is to keep or to change them, or
6,496 completions are spent. Verdicts are asked for on a trainer that takes group sizes
alone, and on one that takes fitted baselines besides. They are held against the exact
costs of the defaults' loss and of the baselines, the numbers beside them against those of
the loss that they are said of, at N = 64 and 1,024 completions a step, and where N is
unknown (0); one draw serves all. `results/stopping/verdicts.csv` has a row for each
population, trainer and N; those that are there with as many runs are left as they are,
unless they are named. The committed table has 100 runs of each, of `weak g` 400, and of the
two whose regret is next to the tolerance, `G = 8 costs 6% more` and `little tells
gradients apart`, 2,000, by `--runs`. `--quick` makes twenty runs of each and writes
nothing. Columns, in percent of the runs unless another unit is given:

    takes         what the trainer takes
    of_loss       said of the user's loss, else of GRPO-type
    regret        what G = 8 costs beyond the best, in truth, steps or completions
    asks_batch    no verdict, for it depends on N
    completions   the median number, and the 90% quantile
    false_keep    kept, though it costs more than 5% more
    beyond_doubt  kept so, though the kind that it lacks is no rarer than is said with it
    false_change  changed, though it costs at most 5% more
    wrong_change  changed to what costs no less than what is in use
    wrong_size    changed to what costs more than 5% more than the best
    bound_false   what G = 8 costs at most, or at least, is not so
    saves         the median of what a change is said to save
    saves_held    how often its interval held, of those that are said
    saves_beyond  how often not, though the kind that it lacks is no rarer than is said
    cannot_tell_at_most   the median of the bound where the verdict is `cannot tell`
"""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from designs import VERDICTS, Source
from mse_lab.answers.advice_evidence import fitted_sizes
from mse_lab.config.training import DEFAULT
from mse_lab.mse.baseline import Baseline
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.mse.rule import Question, Ruling, rule_by_looks
from mse_lab.mse.samples import Samples
from mse_lab.run.looks import COMPLETIONS, looks
from simulated import Design, choose
from truths import Truth

TABLE = Path(__file__).resolve().parents[2] / "results/stopping/verdicts.csv"
RUNS, QUICK, BUDGET = 400, 20, 6496
STEPS = (0, 64, 1024)
TRL = Question(DEFAULT.estimator, DEFAULT.group_size)
PRESENT, TOLERANCE, SIZES = TRL.present, TRL.tolerance, TRL.compared
MOST_GRADED = 23
LOSS = "grpo-std(eps=0.0001)"
FITTED = fitted_sizes(DEFAULT)  # Sizes at which the trainer takes a fitted baseline.
TAKES = {"sizes": (), "baselines": FITTED}
KEYS = ["design", "takes", "completions_per_step"]


class Exact(NamedTuple):
    """Exact costs at some N, over those of the present size by the same loss."""

    sizes: dict[bool, dict[int, float]]  # Of the user's loss (True), and of GRPO-type.
    truth: Truth
    completions: float
    best: dict[int, tuple[float, float]]  # The best baseline at each size.

    @classmethod
    def of(
        cls, truth: Truth, completions: float, best: dict[int, tuple[float, float]]
    ) -> Self:
        """Price sizes."""
        # Compositions of graded rewards are too many in large groups, which cost more.
        some = [size for size in SIZES if truth.binary or size <= MOST_GRADED]
        sizes = {
            True: truth.costs(LOSS, some, PRESENT, completions),
            False: truth.costs("grpo", SIZES, PRESENT, completions),
        }
        return cls(sizes, truth, completions, best)

    def fitted(self, size: int, baseline: Baseline | None, *, of_loss: bool) -> float:
        """Price a baseline as it is typed, or the best one."""
        two = baseline and (baseline.alpha, baseline.lam)
        aim = self.truth.affine_aim(*(two or self.best[size]), size)
        base = self.truth.aim(LOSS if of_loss else "grpo", PRESENT)
        return float((aim.cost(self.completions) / base.cost(self.completions)).item())


class Ended(NamedTuple):
    """What one run says when it ends, and what is true."""

    ruling: Ruling
    completions: int
    exact: Exact
    fitted: tuple[int, ...]  # Sizes at which the trainer takes a fitted baseline.
    one_in: int | None  # How rare the kind of prompts is that the rest does not tell of.

    def least(self, *, of_loss: bool = True) -> float:
        """The least cost of all that the trainer takes."""
        fitted = [self.exact.fitted(one, None, of_loss=of_loss) for one in self.fitted]
        return min([*self.exact.sizes[of_loss].values(), *fitted])

    def cost(self, *, of_loss: bool = True) -> float:
        """The cost of what is set."""
        ruling = self.ruling
        if ruling.baseline:
            return self.exact.fitted(ruling.set_to, ruling.baseline, of_loss=of_loss)
        return self.exact.sizes[of_loss].get(ruling.set_to, math.inf)

    @property
    def regret(self) -> float:
        """What is in use costs so much beyond the best."""
        return 1 / self.least() - 1

    @property
    def judged(self) -> dict[str, bool]:
        """What is false of what it says; and whether the truth of a change was held."""
        ruling, saves = self.ruling, self.ruling.saves
        keeps, changes = (ruling.verdict == one for one in ("keep", "change"))
        false_keep = keeps and self.regret > TOLERANCE
        excused = self.one_in is not None and self.one_in > (ruling.unless_one_in or 0)
        bounded = 1 / self.least(of_loss=ruling.of_loss) - 1
        true = 1 - self.cost(of_loss=ruling.of_loss)
        held = saves is not None and saves.low <= true <= saves.high
        return {
            "false_keep": false_keep,
            "beyond_doubt": false_keep and not excused,
            "false_change": changes and self.regret <= TOLERANCE,
            "wrong_change": changes and self.cost() >= 1,
            "wrong_size": changes and self.cost() / self.least() - 1 > TOLERANCE,
            "bound_false": not ruling.at_least <= bounded <= ruling.at_most,
            "saves_held": held,
            "saves_beyond": not held and not excused,
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


Asked = tuple[str, float]  # What the trainer takes, and N.
ASKED: list[Asked] = [(takes, steps) for takes in TAKES for steps in STEPS]


def run_until(
    case: Source, rng: np.random.Generator, asked: Sequence[Asked] = ASKED
) -> dict[Asked, tuple[Ruling, int]]:
    """Draw prompts until there is each verdict that is asked for, or no more look."""
    whole, found, left = case.whole, {}, {*asked}
    if case.size < math.inf:
        some = choose(whole, rng.permutation(whole.prompts))
    else:
        some = whole.some(rng, BUDGET // COMPLETIONS)
    for blocks in draw_looks(some, rng):
        samples = Samples.of(blocks)
        table = PromptTable.of_samples(samples, case.size)
        for one in sorted(left):
            takes, completions = one
            question = TRL._replace(completions=completions, fitted=TAKES[takes])
            ruling = rule_by_looks(table, question)
            found[one] = ruling, samples.completions
            left -= {one} if ruling.told else set()
        if not left:
            break
    return found


def percent(truths) -> str:
    """Write a share of some runs; empty where there are none."""
    found = list(truths)
    return f"{100 * np.mean(found):.1f}" if found else ""


def row_of(name: str, asked: Asked, answers: list[Ended]) -> dict[str, object]:
    """Make a population's row of the table."""
    verdicts = Counter(one.ruling.verdict for one in answers)
    changes = [one for one in answers if one.ruling.verdict == "change"]
    said = [one.ruling.saves.value for one in changes if one.ruling.saves]
    saved = [value for value in said if math.isfinite(value)]
    drawn = [one.completions for one in answers]
    bounds = [one.ruling.at_most for one in answers if one.ruling.verdict == "cannot tell"]
    most = [bound for bound in bounds if math.isfinite(bound)]
    each = pd.DataFrame([one.judged for one in answers])
    saying = [bool(one.ruling.verdict == "change" and one.ruling.saves) for one in answers]
    of_all = each.columns.drop(["saves_held", "saves_beyond"])
    judged = {name: percent(each[name]) for name in of_all}
    return {
        "design": name,
        "takes": asked[0],
        "completions_per_step": asked[1],
        "runs": len(answers),
        "of_loss": percent(one.ruling.of_loss for one in answers),
        "regret": f"{100 * answers[0].regret:.1f}",
        "keep": percent(one.ruling.verdict == "keep" for one in answers),
        "change": percent(one.ruling.verdict == "change" for one in answers),
        "cannot_tell": f"{100 * verdicts['cannot tell'] / len(answers):.1f}",
        "asks_batch": percent(one.ruling.asks_batch for one in answers),
        "completions": int(np.median(drawn)),
        "completions_90": int(np.quantile(drawn, 0.9)),
        **judged,
        "saves": f"{100 * np.median(saved):.0f}" if saved else "",
        **{name: percent(each[name][saying]) for name in ("saves_held", "saves_beyond")},
        "cannot_tell_at_most": f"{100 * np.median(most):.0f}" if most else "",
    }


def measure(name: str, runs: int) -> list[dict[str, object]]:
    """Measure a population at each N: make its rows."""
    case, rng = VERDICTS[name], np.random.default_rng(0)
    truth = case.truth
    best = {size: truth.best_affine(size) for size in FITTED}
    exact = {steps: Exact.of(truth, steps, best) for steps in STEPS}
    found = [run_until(case, rng) for _ in range(runs)]
    rows = []
    for asked in ASKED:
        takes, steps = asked
        rest = exact[steps], TAKES[takes], case.one_in
        rows.append(row_of(name, asked, [Ended(*one[asked], *rest) for one in found]))
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
    place = [table.design.map(order.index), table.takes.map([*TAKES].index)]
    place.append(table.completions_per_step.astype(int))
    table = table.iloc[np.lexsort(place[::-1])]
    table.to_csv(path, index=False, lineterminator="\n")


def parse(told: str, runs: int, quick: int, **flags: str) -> argparse.Namespace:
    """Read a benchmark's command line: its flags are those of both, and its own."""
    parser = argparse.ArgumentParser(description=told.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="populations, else all")
    parser.add_argument("--runs", type=int, default=runs)
    flags |= {"quick": f"{quick} runs, no table", "fresh": "measure all again"}
    for name, says in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=says)
    return parser.parse_args()


def main() -> None:
    """Measure what is named, or what the table lacks."""
    asked = parse(__doc__, RUNS, QUICK)
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
