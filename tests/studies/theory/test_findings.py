"""Findings: verdicts by where intervals lie, and none where a control is not caught."""

import math

import numpy as np
import pytest
from scipy import stats

from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.studies.theory.findings import (
    LEVEL,
    Control,
    Finding,
    around,
    at_most,
    distance,
    findings_table,
    fit,
    identity,
    limiting,
    mean_of,
    near,
)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.95, 1.09, "holds"),
        (0.85, 1.0, "undecided"),
        (1.0, 1.2, "undecided"),
        (1.11, 1.2, "fails"),
        (0.5, 0.89, "fails"),
        (-math.inf, math.inf, "undecided"),
    ],
)
def test_near(low, high, verdict):
    assert near(Estimate(1.0, low, high), 1.0) == verdict


def test_what_is_not_known_decides_nothing():
    assert near(Estimate(math.nan, math.nan, math.nan), 1.0) == "undecided"


def test_at_most():
    found = [at_most(Estimate(0.0, *ends), 1.0) for ends in [(0, 1), (0.9, 1.1), (1.1, 2)]]
    assert found == ["holds", "undecided", "fails"]


def test_a_control_that_is_not_caught_takes_the_verdict():
    caught, lost = Control("false", True), Control("false", False)
    found = Estimate(1.0, 0.99, 1.01)
    assert limiting("S", "", found, caught).verdict == "holds"
    assert limiting("S", "", found, lost).verdict == "undecided"
    assert identity("S", "", 1e-12, caught).verdict == "holds"
    assert identity("S", "", 1e-3, caught).verdict == "fails"


def test_intervals_cover():
    """2,000 means of 50, by a binomial test at 1e-4: normal tails are hardly too short."""
    draws = np.random.default_rng(0).standard_normal((2000, 50))
    covered = np.mean([one.low < 0 < one.high for one in map(mean_of, draws)])
    assert stats.binomtest(int(2000 * covered), 2000, LEVEL).pvalue > 1e-4


def test_a_fit_weighs_by_the_errors():
    """Mean of 1 +- 1 and 3 +- 0.5: (1 + 4 * 3) / 5, variance 1/5."""
    [value], [[variance]] = fit(np.ones((2, 1)), np.array([1.0, 3]), np.array([1.0, 0.5]))
    assert (value, variance) == (pytest.approx(2.6), pytest.approx(0.2))


def test_distance_is_relative_to_the_second():
    assert distance(np.array([1.0, 5.0]), np.array([2.0, 4.0])) == 0.25


def test_the_table_has_the_columns_of_the_page():
    found = [
        Finding("A", "how", around(1.0, 0.1), 1.0, "holds", Control("no", False)),
        Finding("B", "how", UNKNOWN, 1.0, "undecided"),
    ]
    table = findings_table(found)
    columns = [
        "statement",
        "protocol",
        "value",
        "low",
        "high",
        "expected",
        "verdict",
        "control",
    ]
    assert list(table) == columns
    assert list(table["verdict"]) == ["undecided", "undecided"]
    assert list(table["control"]) == ["NOT CAUGHT: no", ""]
    assert list(table["protocol"]) == ["how", "how"]
