"""A statement, what was measured of it in a run, and the verdict."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mse_lab.mse.intervals import UNKNOWN, Estimate

# `premise fails`: it does not hold here, and was said on an assumption that fails.
Verdict = Literal["holds", "fails", "undecided", "premise fails"]

# An identity follows from algebra and from how completions are drawn and differentiated: it
# says that the bookkeeping is right. Evidence could have been otherwise on another model.
Kind = Literal["identity", "evidence"]


_DRAWS = (
    "completions that depend on one another or come from another policy than the one that "
    "is differentiated, scores that depend on the batch, or a reference that does"
)

# Statements that are identities for independent draws, with what would make them fail.
WOULD_FAIL = {
    "Lemma 1": "other weights than those of the leave-one-out mean",
    "Theorem 2 (exact law)": _DRAWS,
    "Theorem 2 (intercept)": _DRAWS,
    "Theorem 2 (slope)": _DRAWS,
    "Proposition 3": _DRAWS,
    "Corollary 4": f"{_DRAWS}, for the ratio is 1 + zeta/(T (G-1)) exactly",
    "Section 5.1 (falls with G)": _DRAWS,
    "Theorem 7 (best group size)": _DRAWS,
    "Theorem 7 (independent of N)": "nothing: N x MSE = c1 G + c2 + c3/(G-1) holds no N",
}


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

    @property
    def kind(self) -> Kind:
        """Whether data could have decided otherwise."""
        return "identity" if self.statement in WOULD_FAIL else "evidence"

    @property
    def would_fail(self) -> str:
        """What would make an identity fail; empty for evidence."""
        return WOULD_FAIL.get(self.statement, "")


def for_all(verdicts: Iterable[Verdict]) -> Verdict:
    """Judge "for every one": one failure fails it, one doubt leaves it undecided.

    >>> for_all(["holds", "undecided"])
    'undecided'
    """
    found = set(verdicts)
    for verdict in ("fails", "premise fails"):
        if verdict in found:
            return verdict
    return "holds" if found == {"holds"} else "undecided"


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
