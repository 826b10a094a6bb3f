"""Statements of the paper, and the claims that come of putting them to runs.

A statement is one file of this folder, which says how it is judged (`judges`) and holds its
words: nothing else knows of it.
"""

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Literal

import numpy as np
import pandas as pd

from mse_lab import answers
from mse_lab.answers.judgement import (
    RESOLUTION,
    JudgedPair,
    Pair,
    Verdict,
    for_all,
    judge_equal,
    judge_not_larger,
    judge_smaller,
)
from mse_lab.answers.measured_run import UNTESTED, MeasuredRun
from mse_lab.errors import InputError
from mse_lab.formatting import with_interval
from mse_lab.mse.intervals import UNKNOWN, Estimate

# An identity, by algebra, says that the bookkeeping is right. Evidence could have been
# otherwise on another model. An argument is on paper, and no run's.
Kind = Literal["identity", "evidence", "argument"]

# What makes statements fail that are identities for independent draws.
DRAWS = (
    "completions that depend on one another or come from another policy than the one that "
    "is differentiated, scores that depend on the batch, or a reference that does"
)

Judge = Callable[[MeasuredRun], "list[Claim]"]
Comparison = Callable[[Sequence[MeasuredRun]], "list[Claim]"]

# The functions that judge each run, in the order of the paper; those that compare runs.
JUDGES: dict[int, Judge] = {}
COMPARISONS: list[Comparison] = []


def judges(order: int) -> Callable[[Judge], Judge]:
    """Register a function that judges a run; claims come in the order of these numbers."""

    def register(judge: Judge) -> Judge:
        if order in JUDGES:
            raise ValueError(f"two statements have the order {order}")
        JUDGES[order] = judge
        return judge

    return register


def judges_runs_together(compare: Comparison) -> Comparison:
    """Register a function that compares runs, in the order in which they are given."""
    COMPARISONS.append(compare)
    return compare


# Says what the judged pairs of one group size measure.
Describe = Callable[[Sequence[JudgedPair]], str]

# What is measured, and why nothing is decided, where c1 cannot be known.
FEW_PROMPTS = "too few prompts", "The spread between prompts needs three prompts or more."


@dataclass(frozen=True)
class Statement:
    """What the paper says."""

    name: str  # Its number in the paper.
    says: str  # What it says, in a sentence.
    would_fail: str = ""  # What would make an identity fail; empty for evidence.
    argued: bool = False  # Whether it is an argument on paper, which no run measures.
    short: str = ""  # What it says in 34 columns; three verdicts fit on its line.
    number: str = ""  # What the number is that decides, in a word.

    @property
    def kind(self) -> Kind:
        """Whether data decide, and could decide otherwise."""
        if self.argued:
            return "argument"
        return "identity" if self.would_fail else "evidence"

    def about(self, *runs: MeasuredRun) -> "Case":
        """Put it to runs: give the case, which makes the claims."""
        level = max(run.level for run in runs)
        untested = UNTESTED if any(run.law_only for run in runs) else ""
        return Case(self, tuple(run.name for run in runs), level, untested)


@dataclass(frozen=True)
class Claim:
    """One row of `claims.csv`."""

    about: Statement  # The statement.
    # Names of the runs it was put to; more than one where runs are compared.
    runs: tuple[str, ...]
    measured: str  # What was measured, with its interval, in words.
    verdict: Verdict
    reason: str  # Why, in one sentence, from the moments.
    group_size: int | None = None  # G; None for the verdict on the statement as a whole.
    estimate: Estimate = UNKNOWN  # The number that decides.
    # Of the test behind the verdict, Holm-corrected; None where there is none.
    p_value: float | None = None

    @property
    def statement(self) -> str:
        """The name of the statement."""
        return self.about.name


def compare(run: MeasuredRun, first: str, second: str, size: int, label: str = "") -> Pair:
    """Pair the MSE of an estimator with that of another on the same groups."""
    return Pair(size, run.mse_of(first, size), run.mse_of(second, size), label)


def describe_ratios(judged: Sequence[JudgedPair]) -> str:
    """Write the ratio of each pair."""
    return ", ".join(f"{each.pair.label} {with_interval(each.ratio)}" for each in judged)


def _least_supported(judged: Sequence[JudgedPair]) -> JudgedPair:
    rank = ("holds", "undecided", "premise fails", "fails").index
    return max(
        judged, key=lambda result: (rank(result.verdict), np.nan_to_num(result.ratio.value))
    )


def explain_equality(verdict: Verdict, resolution: float = RESOLUTION) -> str:
    """Say what a verdict on measured / law rests on."""
    return {
        "holds": "The exact law at the pool's moments lies inside the interval.",
        "fails": "The exact law at the pool's moments lies outside the interval.",
        "premise fails": "",
        "undecided": f"The interval reaches more than {resolution:.0%} from the law.",
    }[verdict]


@dataclass(frozen=True)
class Case:
    """A statement that is put to runs; it makes the claims, at the runs' level.

    `untested` says why nothing tells the law from the truth; empty where replicates do.
    """

    statement: Statement
    runs: tuple[str, ...]
    level: float
    untested: str = ""

    def claim(
        self,
        measured: str,
        verdict: Verdict,
        reason: str,
        estimate: Estimate = UNKNOWN,
        p_value: float | None = None,
        size: int | None = None,
    ) -> Claim:
        """Make a claim of the statement as a whole, or at one group size."""
        return Claim(
            self.statement, self.runs, measured, verdict, reason, size, estimate, p_value
        )

    def undecided(self, measured: str, why: str) -> list[Claim]:
        """Claim that the statement is undecided, and why."""
        return [self.claim(measured, "undecided", why)]

    def without_replicates(self, prefix: str = "") -> list[Claim]:
        """Leave it undecided where there are no replicates; else make no claim."""
        if not self.untested:
            return []
        return self.undecided(f"{prefix}no replicates", self.untested)

    def _rows(
        self,
        judged: Sequence[JudgedPair],
        explain: Callable[[Verdict], str],
        describe: Describe = describe_ratios,
        worst: Callable[[Sequence[JudgedPair]], JudgedPair] = _least_supported,
    ) -> list[Claim]:
        """Make a claim of each group size, which holds where all its pairs do."""
        rows = []
        for size in dict.fromkeys(result.pair.size for result in judged):
            of_size = [result for result in judged if result.pair.size == size]
            verdict, shown = for_all(result.verdict for result in of_size), worst(of_size)
            reason, measured = explain(verdict), describe(of_size)
            rows.append(
                self.claim(measured, verdict, reason, shown.ratio, shown.p_value, size)
            )
        return rows

    def equal(
        self, pairs: Sequence[Pair], describe: Describe, prefix: str = ""
    ) -> list[Claim]:
        """Judge "measured equals law"; the size furthest off speaks for the whole.

        `describe` says what the pairs of a size measure; the whole begins with the prefix.
        """
        judged = judge_equal(pairs, self.level)
        rows = self._rows(
            judged, explain_equality, describe, partial(min, key=lambda one: one.p_value)
        )
        worst = min(rows, key=lambda row: row.p_value or 0.0)
        measured = (
            f"{prefix}measured / law furthest off at G = {worst.group_size}: "
            f"{with_interval(worst.estimate)}"
        )
        return sum_up(
            rows, worst, measured, explain_equality(for_all(row.verdict for row in rows))
        )

    def smaller(self, pairs: Sequence[Pair], reason: str) -> list[Claim]:
        """Judge "the first is smaller than the second" at each group size."""
        return self._rows(judge_smaller(pairs, self.level), lambda _: reason)

    def not_larger(
        self, pairs: Sequence[Pair], shown: Sequence[Pair], reason: str
    ) -> list[Claim]:
        """Judge "the first is not larger than the second"; show other pairs for them."""
        results = judge_not_larger(pairs, self.level)
        judged = [
            pair.with_verdict(result.verdict, result.p_value, self.level)
            for result, pair in zip(results, shown, strict=True)
        ]
        return self._rows(judged, lambda _: reason)


def sum_up(rows: Sequence[Claim], worst: Claim, measured: str, reason: str) -> list[Claim]:
    """Put the verdict on the whole, which shows the worst size, before those of sizes."""
    verdict = for_all(row.verdict for row in rows)
    whole = replace(
        worst, measured=measured, verdict=verdict, reason=reason, group_size=None
    )
    return [whole, *rows]


def largest_ratio(rows: Sequence[Claim]) -> Claim:
    """Choose the size of the largest ratio."""
    return max(rows, key=lambda row: float(np.nan_to_num(row.estimate.value)))


def judge_run(run: MeasuredRun) -> list[Claim]:
    """Put every statement about one run to it, in the order of the paper."""
    if not run.sizes:
        sizes = list(run.group_sizes)
        raise InputError(f"{run.where}group_sizes = {sizes}: claims need one of 2 or more")
    # What is imported registers its judges.
    for module in pkgutil.iter_modules(answers.__path__):
        import_module(f"{answers.__name__}.{module.name}")
    return [claim for _, judge in sorted(JUDGES.items()) for claim in judge(run)]


def judge_runs(runs: Sequence[MeasuredRun]) -> list[Claim]:
    """Put every statement to runs, given in the order in which MSEs are claimed to fall.

    Claims are in the order of the paper for each run, then those that compare runs. The
    verdict on a whole statement comes before those at its group sizes.
    """
    names = [run.name for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two runs are named {name}; judge them one at a time")
    single = [claim for run in runs for claim in judge_run(run)]
    return single + [claim for compare in COMPARISONS for claim in compare(runs)]


def claims_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """Make `claims.csv`: one row a claim; `group_size` empty for a statement as a whole."""
    rows = [
        {
            "statement": claim.statement,
            "kind": claim.about.kind,
            "run": ", ".join(claim.runs),
            "group_size": claim.group_size,
            "says": claim.about.says,
            "measured": claim.measured,
            **claim.estimate._asdict(),
            "p_value": claim.p_value,
            "verdict": claim.verdict,
            "reason": claim.reason,
            "would_fail": claim.about.would_fail,
        }
        for claim in claims
    ]
    return pd.DataFrame(rows).astype({"group_size": "Int64", "p_value": float})
