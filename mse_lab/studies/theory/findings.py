"""Findings: what a statement predicts, what was found, and the verdict.

A limit is not reached, so a test of equality would refute it with runs enough: `holds` says
that the interval lies within a stated margin of what is expected, `fails` that all of it
lies outside, `undecided` neither. A control applies the same protocol to a statement that
is false; where it is not caught the verdict is `undecided`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy import stats

from mse_lab.answers.judgement import Verdict, decide
from mse_lab.arrays import Floats
from mse_lab.mse.intervals import Estimate

# Of the intervals and of the tests, and how many errors an interval reaches.
LEVEL = 0.99
REACH = float(stats.norm.ppf((1 + LEVEL) / 2))

# What float64 may do to an identity, and what of a limit counts as none, as shares.
ROUNDING, SHARE = 1e-8, 0.1


class Control(NamedTuple):
    """What is known to be false, and whether the protocol caught it."""

    says: str
    caught: bool

    def __str__(self) -> str:
        """Say both."""
        return f"{'caught' if self.caught else 'NOT CAUGHT'}: {self.says}"


@dataclass(frozen=True)
class Finding:
    """One row of `statements.csv`.

    Attributes:
        statement: Its number in the paper, and a few words.
        protocol: What `value` is, and of what.
        estimate: What was found, with its interval; without width where it is enumerated.
        expected: What the statement predicts.
        judged: The verdict if the control is caught.
        control: A case known to be false, under the same protocol.
    """

    statement: str
    protocol: str
    estimate: Estimate
    expected: float
    judged: Verdict
    control: Control | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether it is so."""
        lost = self.control is not None and not self.control.caught
        return "undecided" if lost else self.judged


def exactly(value: float) -> Estimate:
    """Give a number that is enumerated an interval without width."""
    return Estimate(float(value), float(value), float(value))


def around(value: float | Floats, error: float | Floats) -> Estimate:
    """Give a number with a normal error its interval."""
    middle, reach = float(value), REACH * float(error)
    return Estimate(middle, middle - reach, middle + reach)


def error_of(values_R: Floats) -> float:
    """The error of a mean over independent runs."""
    return float(values_R.std(ddof=1) / math.sqrt(len(values_R)))


def mean_of(values_R: Floats) -> Estimate:
    """Mean over independent runs, with its interval."""
    return around(values_R.mean(), error_of(values_R))


def fit(design: Floats, values: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Least squares, weighted by the errors: the coefficients and their covariance."""
    model = sm.WLS(values, design, weights=errors**-2).fit(cov_type="fixed scale")
    return np.asarray(model.params), np.asarray(model.cov_params())


def distance(values: Floats, others: Floats) -> float:
    """Largest difference of two arrays, as a share of the second's largest entry."""
    return float(np.abs(values - others).max() / np.abs(others).max())


def near(estimate: Estimate, expected: float, margin: float = SHARE) -> Verdict:
    """Judge whether a number is as expected, to within a margin.

    >>> near(Estimate(1.0, 0.95, 1.05), 1.0), near(Estimate(1.0, 0.8, 1.2), 1.0)
    ('holds', 'undecided')
    """
    low, high = expected - margin, expected + margin
    outside = estimate.high < low or estimate.low > high
    return decide(fails=outside, holds=low <= estimate.low and estimate.high <= high)


def at_most(estimate: Estimate, limit: float) -> Verdict:
    """Judge whether a number is no larger than a limit."""
    return decide(fails=estimate.low > limit, holds=estimate.high <= limit)


def limiting(
    statement: str, protocol: str, estimate: Estimate, control: Control | None = None
) -> Finding:
    """Judge what should tend to 1."""
    return Finding(statement, protocol, estimate, 1.0, near(estimate, 1.0), control)


def identity(statement: str, protocol: str, value: float, control: Control) -> Finding:
    """Judge by the relative distance of two quantities that should be equal."""
    verdict = at_most(exactly(value), ROUNDING)
    return Finding(statement, protocol, exactly(value), 0.0, verdict, control)


def findings_table(findings: Sequence[Finding]) -> pd.DataFrame:
    """Make `statements.csv`."""
    rows = [
        {
            "statement": finding.statement,
            "protocol": finding.protocol,
            **finding.estimate._asdict(),
            "expected": finding.expected,
            "verdict": finding.verdict,
            "control": "" if finding.control is None else str(finding.control),
        }
        for finding in findings
    ]
    return pd.DataFrame(rows)
