"""Claims: what a statement of the paper becomes when a run's numbers are put to it.

A statement is data: what it says, and which number must lie in which range. It fails where
its numbers refute it and the deviation is not negligible, above 5%; it holds where their
intervals lie within a stated range; else it is undecided. It is refuted by two-sided tests,
corrected after Holm over all numbers of the run: at most with the probability of one less
the run's level a true statement of a run is said to fail. That it holds needs no
correction, for every number must say so.

A statement that rests on an assumption is `outside` where both fail, one of the paper's
picture of its own models `does not carry over` where it fails, and one that no number is
put to is `not tested`. What holds by algebra, an identity, checks the run: its numbers are
judged in the same way.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from mse_lab.arrays import Floats
from mse_lab.formatting import number, with_interval
from mse_lab.mse.intervals import UNKNOWN, Estimate, Statistic

ClaimVerdict = Literal[
    "holds", "fails", "does not carry over", "outside", "undecided", "not tested"
]

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
NOT_SMALLER = Test((1.0, np.inf), (1 - SMALL, np.inf), (1 - SMALL, np.inf))


@dataclass(frozen=True)
class Statement:
    """What the paper says, and how it is judged."""

    name: str  # Its number in the paper.
    says: str  # What it says, in a sentence.
    short: str  # The same in 34 columns; three verdicts fit on its line.
    test: Test = EQUAL_TEST
    identity: bool = False  # True by algebra: it checks the run, not the paper.
    refuted: ClaimVerdict = "fails"  # The verdict where a test refutes it.
    assumes: str = ""  # How the names of the statements begin that it rests on.


def _inside(estimate: Sequence[float], ends: Range) -> bool:
    return all(ends[0] <= one <= ends[1] for one in estimate)


class Number(NamedTuple):
    """A number of a run, with its spread on the scale of the tests."""

    label: str
    estimate: Estimate = UNKNOWN
    error: float = np.nan  # Standard error.
    degrees: float = np.nan  # Its degrees of freedom.
    level: float = np.nan  # That of the estimate's interval.
    group_size: int | None = None  # G; None for a number of all sizes.
    logarithmic: bool = True  # Whether tests are on the scale of logarithms.
    decides: bool = True  # Or whether it may only refute.
    beside: str = ""  # What it is read beside.
    # Of the test that would refute a statement, after Holm; NaN without one.
    p_value: float = np.nan

    def scaled(self, values: Sequence[float]) -> Floats:
        """Put numbers on the scale of the tests."""
        known = np.asarray(values, dtype=float)
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(known, 0)) if self.logarithmic else known

    def p_outside(self, ends: Range) -> float:
        """Test whether it lies outside a range: the two-sided p-value, NaN if unknown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = self.scaled(self.estimate[:1]) - self.scaled(ends)
            below, above = special.stdtr(self.degrees, apart / self.error * [1, -1])
        return float(np.minimum(1.0, 2 * np.minimum(below, above)))

    @property
    def written(self) -> str:
        """Write it for a reader."""
        return f"{self.label} {with_interval(self.estimate)}{self.beside}"

    @property
    def deviates(self) -> bool:
        """Whether it is shown to lie where the statement says that it does not."""
        return self.p_value < 1 - self.level

    def verdict(self, test: Test) -> ClaimVerdict:
        """Judge a statement by this number alone."""
        if self.deviates and not _inside(self.estimate[:1], test.negligible):
            return "fails"
        return "holds" if _inside(self.estimate, test.within) else "undecided"

    def doubt(self, test: Test) -> tuple[int, float]:
        """Order numbers by the verdict, then by how far the interval reaches."""
        (low, high), (least, most) = map(self.scaled, (test.within, self.estimate[1:]))
        with np.errstate(invalid="ignore"):
            reach = max(low - least, most - high)
        rank = ("holds", "undecided", "fails").index(self.verdict(test))
        return rank, float(np.nan_to_num(reach, nan=np.inf))

    def explain(self, test: Test) -> str:
        """Write the number, and what it shows."""
        if np.isnan(self.estimate.value):
            return f"{self.label} is not known, for a part of it is not above its noise"
        p_value = f"= {number(self.p_value, 2)}" if self.p_value >= 1e-4 else "< 0.0001"
        shown, verdict = f"p {p_value} after Holm's correction", self.verdict(test)
        low, high = test.within
        said = f"below {high:g}" if np.isinf(low) else f"inside {low:.2g} to {high:.3g}"
        said = f"above {low:g}" if np.isinf(high) else said
        if verdict == "fails":
            said = f"refuted, {shown}"
        elif self.deviates:
            said = f"a deviation, {shown}, of a negligible size"
        elif verdict == "undecided":
            said = f"not known to be {said}"
        return f"{self.written}, {said}"


def ratio(
    label: str, first: Statistic, second: Statistic, level: float, size: int | None = None
) -> Number:
    """Set a number in proportion to a positive one, paired; unknown without that.

    On the scale of logarithms, unless the first is within two standard errors of zero.
    """
    if not second.value > 2 * second.error:
        return Number(label, group_size=size)
    if not first.value > 2 * first.error:
        return signed(label, first / second, level)._replace(group_size=size)
    log, estimate = first.log() - second.log(), first.ratio_to(second, level)
    return Number(label, estimate, log.error, log.spread.degrees, level, size)


def signed(label: str, number: Statistic, level: float) -> Number:
    """Take a number that may be negative."""
    spread = (number.error, number.spread.degrees, level)
    return Number(label, number.interval(level), *spread, logarithmic=False)


@dataclass(frozen=True)
class Case:
    """A statement, and the numbers of a run that are put to it."""

    about: Statement
    numbers: tuple[Number, ...] = ()
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
    verdict: ClaimVerdict
    sentence: str  # The numbers with their intervals, then what they show.

    @property
    def statement(self) -> str:
        """The name of the statement."""
        return self.about.name


def for_all(verdicts: Iterable[ClaimVerdict]) -> ClaimVerdict:
    """Judge "for every one": one failure fails it, one doubt leaves it undecided.

    >>> for_all(["holds", "undecided"]), for_all([]), for_all(["not tested"])
    ('undecided', 'undecided', 'not tested')
    """
    given = set(verdicts)
    if "fails" in given:
        return "fails"
    return given.pop() if len(given) == 1 else "undecided"


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


def _claim(case: Case, size: int | None, runs: tuple[str, ...]) -> Claim:
    """Decide a case, as a whole or at a size, by its numbers, of which the worst speaks."""
    about, test, whole = case.about, case.about.test, size is None
    numbers = [one for one in case.numbers if whole or one.group_size == size]
    counted = [one for one in numbers if one.decides or one.verdict(test) == "fails"]
    verdicts = [one.verdict(test) for one in counted]
    decisive, said = Number(""), []
    if counted:
        decisive = max(counted, key=lambda one: one.doubt(test))
        where = f"At G = {decisive.group_size}, " if decisive.group_size != size else ""
        beside = [one for one in numbers if one.group_size == size and one is not decisive]
        also = "".join(f"; {one.written}" for one in beside)
        said.append(f"{where}{decisive.explain(test)}{also}.")
    if whole:
        verdicts += [case.verdict] if case.verdict else []
        said += [case.remark] if case.remark else []
        if case.shown:
            decisive = case.shown._replace(p_value=decisive.p_value)
    verdict = for_all(verdicts)
    verdict = about.refuted if verdict == "fails" else verdict
    return Claim(about, runs, size, decisive, verdict, " ".join(said))


def judge(cases: Sequence[Case], runs: tuple[str, ...]) -> list[Claim]:
    """Judge the cases of a run as one family; a whole comes before its sizes."""
    plain = [one.p_outside(case.about.test.says) for case in cases for one in case.numbers]
    p_values, claims = iter(holm(plain).tolist()), []
    for case in cases:
        tested = tuple(one._replace(p_value=next(p_values)) for one in case.numbers)
        sizes = dict.fromkeys([None, *(one.group_size for one in tested)])
        claims += [_claim(replace(case, numbers=tested), size, runs) for size in sizes]
    return [_within_assumptions(claim, claims) for claim in claims]


def _within_assumptions(claim: Claim, claims: Sequence[Claim]) -> Claim:
    """Take back the refutation of a statement where its assumption fails, too."""
    assumes = claim.about.assumes
    assumed = [one for one in claims if assumes and one.statement.startswith(assumes)]
    if claim.verdict != "fails" or all(one.verdict != "fails" for one in assumed):
        return claim
    sentence = f"{claim.sentence} {assumes}, on which it rests, fails here."
    return replace(claim, verdict="outside", sentence=sentence)


def last_name(run: str) -> str:
    """Name a run beside others: the last part of its name."""
    return run.rpartition("/")[2]


def claims_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """Make `claims.csv`: one row a claim; `group_size` empty for a statement as a whole."""
    rows: list[dict[str, Any]] = [
        {
            "statement": claim.statement,
            "kind": "identity" if claim.about.identity else "evidence",
            "run": ", ".join(claim.runs),
            "group_size": claim.group_size,
            "says": claim.about.says,
            "number": claim.number.label,
            **claim.number.estimate._asdict(),
            "p_value": claim.number.p_value,
            "verdict": claim.verdict,
            "sentence": claim.sentence,
        }
        for claim in claims
    ]
    return pd.DataFrame(rows).astype({"group_size": "Int64", "p_value": float})
