"""A statement, what was measured of it in a run, and the verdict."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mse_lab.intervals import Estimate

Verdict = Literal["holds", "fails", "undecided"]

NO_NUMBER = Estimate(np.nan, np.nan, np.nan)


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
    estimate: Estimate = NO_NUMBER
    p_value: float | None = None


def for_all(verdicts: Iterable[Verdict]) -> Verdict:
    """Judge "for every one": one failure fails it, one doubt leaves it undecided.

    >>> for_all(["holds", "undecided"])
    'undecided'
    """
    found = set(verdicts)
    if "fails" in found:
        return "fails"
    return "holds" if found == {"holds"} else "undecided"


def describe(estimate: Estimate) -> str:
    """Write a number with its interval.

    >>> describe(Estimate(1.2345, 1.0, 1.5))
    '1.23 [1, 1.5]'
    >>> describe(NO_NUMBER)
    'not measurable'
    """
    if np.isnan(estimate.value):
        return "not measurable"
    value, low, high = (f"{one:.3g}" for one in estimate)
    return f"{value} [{low}, {high}]"
