"""Claims: what a statement of the paper becomes when a run's numbers are put to it.

A statement is data: what it says, and which number must lie in which range. It fails where
its numbers refute it and the deviation is not negligible, above 5%; it holds where their
intervals lie within a stated range; else it is undecided. It is refuted by two-sided tests,
corrected after Holm over all numbers of the run: at most with the probability of one less
the run's level a true statement of a run is said to fail. That it holds needs no
correction, for every number must say so.

A statement that rests on an assumption is `outside its assumptions` where both fail.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from mse_lab.arrays import Floats
from mse_lab.formatting import number, with_interval
from mse_lab.mse.intervals import UNKNOWN, Estimate, Statistic

ClaimVerdict = Literal["holds", "fails", "outside its assumptions", "undecided"]

# An identity holds by algebra: it tests the run, not the paper. Evidence could have been
# otherwise on another model.
Kind = Literal["identity", "evidence"]

Range = tuple[float, float]


class Test(NamedTuple):
    """By which ranges of a number a statement is judged."""

    says: Range  # Where the statement says that the number lies.
    negligible: Range  # In which a deviation from it may lie.
    within: Range  # Where the interval must lie for the statement to hold.


# A share of an error, or of a cost, that is negligible.
SMALL = 0.05
WITHIN_SMALL = (1 - SMALL, 1 + SMALL)


def equal(factor: float) -> Test:
    """Judge that a number is one; an interval within this factor suffices to hold."""
    return Test((1.0, 1.0), WITHIN_SMALL, (1 / factor, factor))


EQUAL_TEST = Test(WITHIN_SMALL, WITHIN_SMALL, WITHIN_SMALL)
SMALLER = Test((-np.inf, 1.0), (-np.inf, 1 + SMALL), (-np.inf, 1.0))
NOT_LARGER = SMALLER._replace(within=(-np.inf, 1 + SMALL))


@dataclass(frozen=True)
class Statement:
    """What the paper says, and how it is judged."""

    name: str  # Its number in the paper.
    says: str  # What it says, in a sentence.
    short: str  # The same in 34 columns; three verdicts fit on its line.
    test: Test = EQUAL_TEST
    would_fail: str = ""  # What would make an identity fail; empty for evidence.
    assumes: str = ""  # How the names of the statements begin that it rests on.

    @property
    def kind(self) -> Kind:
        """Whether data decide, and could decide otherwise."""
        return "identity" if self.would_fail else "evidence"


def _log(values: Any) -> Any:
    return np.log(np.maximum(values, 0))


class Number(NamedTuple):
    """A number of a run, with its spread on the scale of the tests."""

    label: str
    estimate: Estimate = UNKNOWN
    error: float = np.nan  # Standard error.
    degrees: float = np.nan  # Its degrees of freedom.
    scale: Callable[[Any], Any] = _log
    decides: bool = True  # Or whether it may only refute.

    def p_outside(self, ends: Range) -> float:
        """Test whether it lies outside a range: the two-sided p-value, NaN if unknown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = self.scale(self.estimate.value) - self.scale(np.array(ends))
            below, above = special.stdtr(self.degrees, apart / self.error * [1, -1])
        return float(np.minimum(1.0, 2 * np.minimum(below, above)))


def _inside(estimate: Sequence[float], ends: Range) -> bool:
    return all(ends[0] <= one <= ends[1] for one in estimate)


def ratio(label: str, first: Statistic, second: Statistic, level: float) -> Number:
    """Set a number in proportion to a positive one, paired; unknown without that.

    On the scale of logarithms, unless the first is within two standard errors of zero.
    """
    if not second.value > 2 * second.error:
        return Number(label)
    if not first.value > 2 * first.error:
        return signed(label, first / second, level)
    log = first.log() - second.log()
    return Number(label, first.ratio_to(second, level), log.error, log.degrees)


def signed(label: str, found: Statistic, level: float) -> Number:
    """Take a number that may be negative."""
    estimate = found.interval(level)
    return Number(label, estimate, found.error, found.degrees, scale=np.asarray)


@dataclass(frozen=True)
class Case:
    """A statement and the numbers of a run that are put to it.

    A case without a size is the statement as a whole: it has the numbers of its sizes, too.
    """

    about: Statement
    numbers: tuple[Number, ...] = ()
    size: int | None = None  # G.
    remark: str = ""  # What the moments say of it, in sentences.
    verdict: ClaimVerdict | None = None  # What no test decides.
    shown: Number | None = None  # What is shown in place of the number that decides.


@dataclass(frozen=True)
class Claim:
    """One row of `claims.csv`."""

    about: Statement
    runs: tuple[str, ...]  # Those that it is judged by; several where they are compared.
    group_size: int | None  # G; None for the statement as a whole.
    number: Number  # The one that supports it least.
    p_value: float  # Of the test that would refute it, corrected; NaN without one.
    verdict: ClaimVerdict
    sentence: str  # The numbers with their intervals, then what they show.

    @property
    def statement(self) -> str:
        """The name of the statement."""
        return self.about.name


class _Tested(NamedTuple):
    """A number of a case, the corrected p-value of its test, and what that says."""

    case: Case
    number: Number
    p_value: float
    level: float
    tests: int  # How many were made of the run.

    @property
    def deviates(self) -> bool:
        """Whether it is shown to lie where the statement says that it does not."""
        return self.p_value < 1 - self.level

    @property
    def verdict(self) -> ClaimVerdict:
        _, negligible, within = self.case.about.test
        if self.deviates and not _inside(self.number.estimate[:1], negligible):
            return "fails"
        return "holds" if _inside(self.number.estimate, within) else "undecided"

    @property
    def counts(self) -> bool:
        return self.number.decides or self.verdict == "fails"

    @property
    def doubt(self) -> tuple[int, float]:
        """Order numbers by the verdict, then by how far the interval reaches."""
        rank, scale = ("holds", "undecided", "fails").index, self.number.scale
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = scale(np.array([self.case.about.test.within, self.number.estimate[1:]]))
        reach = float(max(ends[0, 0] - ends[1, 0], ends[1, 1] - ends[0, 1]))
        return rank(self.verdict), np.nan_to_num(reach, nan=np.inf)

    def explain(self) -> str:
        """Write the number, what it shows, and on which side of its interval a law lies."""
        label, estimate, *_ = self.number
        if np.isnan(estimate.value):
            return f"{label} is not known, for a part of it is not above its noise"
        test = self.case.about.test
        p_value = f"= {number(self.p_value, 2)}" if self.p_value >= 1e-4 else "< 0.0001"
        shown = f"p {p_value} after Holm's correction"
        if self.verdict == "fails":
            said = f"refuted, {shown}"
        elif self.deviates:
            said = f"a deviation, {shown}, of a negligible size"
        else:
            unknown = "" if self.verdict == "holds" else "not known to be "
            said = f"{unknown}{_say(test.within)}"
        written = f"{label} {with_interval(estimate)}, {said}"
        if test.says != (1.0, 1.0):
            return written
        if _inside((1.0,), estimate[1:]):
            return f"{written}; the law lies inside the interval"
        chance = f"{round(self.tests * (1 - self.level))} of {self.tests} do by chance"
        often = "" if self.deviates else f", as {chance}"
        return f"{written}; the law lies outside the interval{often}"


def _say(ends: Range) -> str:
    low, high = ends
    return f"below {high:g}" if np.isinf(low) else f"inside {low:.2g} to {high:.3g}"


def for_all(verdicts: Iterable[ClaimVerdict]) -> ClaimVerdict:
    """Judge "for every one": one failure fails it, one doubt leaves it undecided.

    >>> for_all(["holds", "undecided"]), for_all([])
    ('undecided', 'undecided')
    """
    given = set(verdicts)
    if "fails" in given:
        return "fails"
    return "holds" if given == {"holds"} else "undecided"


def holm(p_values: Sequence[float]) -> Floats:
    """Correct the p-values of one family after Holm; NaN, of no test, does not count.

    >>> holm([0.01, float("nan"), 0.04]).tolist()
    [0.02, nan, 0.04]
    """
    from statsmodels.stats.multitest import multipletests

    corrected = np.array(p_values, dtype=float)
    made = ~np.isnan(corrected)
    if made.any():
        corrected[made] = multipletests(corrected[made], method="holm")[1]
    return corrected


def _test(cases: Sequence[Case], level: float) -> list[_Tested]:
    """Test every number of every case, as one family."""
    pairs = [(case, one) for case in cases for one in case.numbers]
    p_values = holm([one.p_outside(case.about.test.says) for case, one in pairs])
    tests = int(np.isfinite(p_values).sum())
    return [
        _Tested(*pair, float(p_value), level, tests)
        for pair, p_value in zip(pairs, p_values, strict=True)
    ]


def _claim(case: Case, tested: Sequence[_Tested], runs: tuple[str, ...]) -> Claim:
    """Decide a case by its numbers, of which the worst speaks."""
    counted = [one for one in tested if one.counts]
    given = [case.verdict] if case.verdict else []
    verdict = for_all([*given, *(one.verdict for one in counted)])
    decisive, p_value, reason = Number(""), np.nan, ""
    if counted:
        worst = max(counted, key=lambda one: one.doubt)
        decisive, p_value = worst.number, worst.p_value
        others = [one.number for one in tested if one.case is case and one is not worst]
        where = "" if worst.case is case else f"At G = {worst.case.size}, "
        also = "".join(f"; {one.label} {with_interval(one.estimate)}" for one in others)
        reason = f"{where}{worst.explain()}{also}. "
    decisive, sentence = case.shown or decisive, f"{reason}{case.remark}".strip()
    return Claim(case.about, runs, case.size, decisive, p_value, verdict, sentence)


def judge(cases: Sequence[Case], runs: tuple[str, ...], level: float) -> list[Claim]:
    """Judge the cases of a run as one family; a whole comes before its sizes."""
    claims, tested = [], _test(cases, level)
    for about in dict.fromkeys(case.about for case in cases):
        of_about = [case for case in cases if case.about == about]
        whole = next((case for case in of_about if case.size is None), Case(about))
        numbers = [one for one in tested if one.case.about == about]
        claims.append(_claim(whole, numbers, runs))
        for case in of_about:
            if case.size is not None:
                numbers = [one for one in tested if one.case is case]
                claims.append(_claim(case, numbers, runs))
    return [_within_assumptions(claim, claims) for claim in claims]


def _within_assumptions(claim: Claim, claims: Sequence[Claim]) -> Claim:
    """Take back the refutation of a statement where its assumption fails, too."""
    assumes = claim.about.assumes
    assumed = [one for one in claims if assumes and one.statement.startswith(assumes)]
    if claim.verdict != "fails" or all(one.verdict != "fails" for one in assumed):
        return claim
    sentence = f"{claim.sentence} {assumes}, on which it rests, fails here."
    return replace(claim, verdict="outside its assumptions", sentence=sentence)


def last_name(run: str) -> str:
    """Name a run beside others: the last part of its name."""
    return run.rpartition("/")[2]


def claims_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """Make `claims.csv`: one row a claim; `group_size` empty for a statement as a whole."""
    rows = [
        {
            "statement": claim.statement,
            "kind": claim.about.kind,
            "run": ", ".join(claim.runs),
            "group_size": claim.group_size,
            "says": claim.about.says,
            "number": claim.number.label,
            **claim.number.estimate._asdict(),
            "p_value": claim.p_value,
            "verdict": claim.verdict,
            "sentence": claim.sentence,
            "would_fail": claim.about.would_fail,
        }
        for claim in claims
    ]
    return pd.DataFrame(rows).astype({"group_size": "Int64", "p_value": float})
