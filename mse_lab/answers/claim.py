"""Claims: statements of the paper, put to runs, with what was measured and the verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mse_lab.answers.judgement import RESOLUTION, Judged, Verdict, for_all
from mse_lab.answers.measured_run import UNTESTED, MeasuredRun
from mse_lab.mse.intervals import UNKNOWN, Estimate

# An identity follows from algebra and from how completions are drawn and differentiated: it
# says that the bookkeeping is right. Evidence could have been otherwise on another model.
Kind = Literal["identity", "evidence"]

# What makes statements fail that are identities for independent draws.
DRAWS = (
    "completions that depend on one another or come from another policy than the one that "
    "is differentiated, scores that depend on the batch, or a reference that does"
)

# What is measured, and why nothing is decided, where c1 cannot be known.
FEW_PROMPTS = (
    "too few prompts",
    "The spread between prompts needs three prompts or more.",
)


@dataclass(frozen=True)
class Claim:
    """One row of `claims.csv`.

    Attributes:
        statement: As the paper numbers it.
        runs: Names of the runs it was put to; more than one where runs are compared.
        says: What it says, in one sentence.
        measured: What was measured, with its interval, in words.
        verdict: At the run's level.
        reason: Why, in one sentence, from the moments.
        group_size: G; None for the verdict on the statement as a whole.
        estimate: The number that decides, with its interval.
        p_value: Of the test behind the verdict, Holm-corrected; None where there is none.
        would_fail: What would make an identity fail; empty for evidence.
    """

    statement: str
    runs: tuple[str, ...]
    says: str
    measured: str
    verdict: Verdict
    reason: str
    group_size: int | None = None
    estimate: Estimate = UNKNOWN
    p_value: float | None = None
    would_fail: str = ""

    @property
    def kind(self) -> Kind:
        """Whether data could have decided otherwise."""
        return "identity" if self.would_fail else "evidence"


def describe(estimate: Estimate) -> str:
    """Write a number with its interval.

    >>> describe(Estimate(1.2345, 1.0, 1.5))
    '1.23 [1, 1.5]'
    >>> describe(UNKNOWN)
    'not measurable'
    """
    if np.isnan(estimate.value):
        return "not measurable"
    value, low, high = (f"{one:.3g}" for one in estimate)
    return f"{value} [{low}, {high}]"


def tell_ratios(judged: Sequence[Judged]) -> str:
    """Write the ratio of each pair."""
    return ", ".join(f"{one.pair.label} {describe(one.ratio)}" for one in judged)


def least_supported(judged: Sequence[Judged]) -> Judged:
    """Choose the pair that speaks least for "the first is the smaller one"."""
    rank = {"fails": 3, "premise fails": 2, "undecided": 1, "holds": 0}
    return max(judged, key=lambda one: (rank[one.verdict], np.nan_to_num(one.ratio.value)))


def furthest_off(judged: Sequence[Judged]) -> Judged:
    """Choose the pair of the least p-value."""
    return min(judged, key=lambda one: one.p_value)


def explain_equality(verdict: Verdict, resolution: float = RESOLUTION) -> str:
    """Say what a verdict on measured / law rests on."""
    return {
        "holds": "The exact law at the pool's moments lies inside the interval.",
        "fails": "The exact law at the pool's moments lies outside the interval.",
        "premise fails": "",
        "undecided": f"The interval reaches more than {resolution:.0%} from the law.",
    }[verdict]


@dataclass(frozen=True)
class Statement:
    """What the paper says: its number there, a sentence, what would make it fail."""

    name: str
    says: str
    would_fail: str = ""

    def about(self, *runs: MeasuredRun) -> "Case":
        """Put it to runs."""
        level = max(run.level for run in runs)
        untested = UNTESTED if any(run.law_only for run in runs) else ""
        return Case(self, tuple(run.name for run in runs), level, untested)


@dataclass(frozen=True)
class Case:
    """A statement put to runs: it makes the claims.

    Attributes:
        statement: The statement.
        runs: Their names.
        level: Of intervals; tests are at one less it.
        untested: Why nothing tells the law from the truth; empty where replicates do.
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
            self.statement.name,
            self.runs,
            self.statement.says,
            measured,
            verdict,
            reason,
            size,
            estimate,
            p_value,
            self.statement.would_fail,
        )

    def undecided(self, measured: str, why: str) -> list[Claim]:
        """Say in one claim that nothing can be said."""
        return [self.claim(measured, "undecided", why)]

    def without_replicates(self, known: str = "") -> list[Claim]:
        """Leave it undecided where there are none: nothing tests the law; else nothing."""
        return self.undecided(f"{known}no replicates", self.untested) * bool(self.untested)

    def rows(
        self,
        judged: Sequence[Judged],
        explain: Callable[[Verdict], str],
        tell: Callable[[Sequence[Judged]], str] = tell_ratios,
        worst: Callable[[Sequence[Judged]], Judged] = least_supported,
    ) -> list[Claim]:
        """Make a claim of each group size, which holds where all its pairs do.

        Args:
            judged: The pairs, in the order of their sizes.
            explain: Gives the reason for a verdict.
            tell: Says what the pairs of a size measure.
            worst: Chooses the pair whose ratio and p-value are shown.
        """
        rows = []
        for size in dict.fromkeys(one.pair.size for one in judged):
            own = [one for one in judged if one.pair.size == size]
            verdict, shown = for_all(one.verdict for one in own), worst(own)
            reason, told = explain(verdict), tell(own)
            rows.append(self.claim(told, verdict, reason, shown.ratio, shown.p_value, size))
        return rows


def sum_up(rows: Sequence[Claim], worst: Claim, measured: str, reason: str) -> Claim:
    """Make the verdict on a statement as a whole, which shows the worst of its sizes."""
    verdict = for_all(row.verdict for row in rows)
    return replace(
        worst, measured=measured, verdict=verdict, reason=reason, group_size=None
    )


def furthest_size(rows: Sequence[Claim]) -> Claim:
    """Choose the size at which measured and law are furthest off."""
    return min(rows, key=lambda row: row.p_value or 0.0)


def tell_furthest(worst: Claim) -> str:
    """Say where that is, and how far."""
    told = describe(worst.estimate)
    return f"measured / law furthest off at G = {worst.group_size}: {told}"


def largest_ratio(rows: Sequence[Claim]) -> Claim:
    """Choose the size of the largest ratio."""
    return max(rows, key=lambda row: float(np.nan_to_num(row.estimate.value)))
