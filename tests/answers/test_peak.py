"""Tests A, B and C on simulated studies: right at their level, and able to refuse.

J(G) = 0.8 - 0.005 [G + 16/(G-1)] beside noise that grows with G and is shared by a seed's
runs; the true best group size is 5.
"""

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from mse_lab.answers.peak import (
    Curve,
    Peak,
    _critical,
    fit_peak,
    judge_line,
    judge_peak,
    judge_set,
    lack_of_fit,
    measure_peak,
    regrets,
)
from mse_lab.answers.predicted_group_size import Predicted

SIZES = np.array([2.0, 4, 8, 16, 32, 64])
RHO, ERROR, LEVEL, TOLERANCE = 4.0, 0.1, 0.95, 0.02
PATH_MSE = SIZES + RHO**2 / (SIZES - 1)
TRIALS = 40


def simulate(rng, seeds=16, slope=0.005, noise=0.02):
    spread = noise * np.linspace(0.5, 1.5, len(SIZES))
    values = 0.8 - slope * PATH_MSE + spread * rng.standard_normal((seeds, len(SIZES)))
    return Curve(SIZES, values + 0.01 * rng.standard_normal((seeds, 1)))


def predict(rng, factor=1.0):
    """A prediction of G* with its error; `factor` times the truth."""
    rho = factor * (1 + RHO) - 1
    log_ratio = math.log(rho) + ERROR * rng.standard_normal()
    return Predicted(100, log_ratio, ERROR, 7, (1.0, 10.0, rho**2))


def verdicts(curve, predicted):
    compared = regrets(curve, LEVEL)
    yield "A", judge_peak(measure_peak(curve), predicted, LEVEL)
    yield "B", judge_set(curve, compared, predicted.best, TOLERANCE)
    yield "C", judge_line(curve, predicted, LEVEL)[0]


def count(factor, trials, **design):
    rng = np.random.default_rng(0)
    return Counter(
        pair
        for _ in range(trials)
        for pair in verdicts(simulate(rng, **design), predict(rng, factor))
    )


def at_most(share, trials):
    """A count of events of this probability that chance exceeds once in 1,000."""
    return stats.binom.isf(1e-3, trials, share)


def test_a_true_prediction_fails_no_more_often_than_said():
    found = count(1.0, TRIALS)
    for test in "ABC":
        assert found[test, "fails"] <= at_most(1 - LEVEL, TRIALS)
        assert found[test, "holds"] > TRIALS / 2


@pytest.mark.parametrize("factor", [8.0, 1 / 2])
def test_a_false_prediction_fails(factor):
    found = count(factor, 10)
    assert found["A", "fails"] == 10
    if factor == 8:
        assert found["B", "fails"] == 10
        assert found["C", "fails"] == 10


def test_noise_confirms_nothing():
    found = count(1.0, 10, seeds=4, noise=0.3)
    assert sum(found[test, "holds"] for test in "ABC") <= 2


def test_friedmans_test_has_its_level_and_its_power():
    rng = np.random.default_rng(1)
    flat = [simulate(rng, slope=0.0).differ() < 0.05 for _ in range(200)]
    assert sum(flat) <= at_most(0.05, 200)
    assert simulate(rng).differ() < 1e-6
    assert Curve(SIZES, np.ones((4, 6))).differ() == 1


def test_the_interval_of_the_peak_covers():
    """No prediction's error: the jackknife of log rho alone."""
    rng, inside = np.random.default_rng(2), 0
    for _ in range(TRIALS):
        low, high = measure_peak(simulate(rng)).interval(LEVEL)[1:]
        inside += low <= 1 + RHO <= high
    assert TRIALS - inside <= at_most(1 - LEVEL, TRIALS)
    assert high - low < 4


def test_rounding_moves_nothing():
    """Another processor rounds otherwise; equal eigenvalues have other vectors there."""
    rng = np.random.default_rng(5)
    curve = simulate(rng, noise=0.05)
    rounded = curve._replace(
        values_SG=curve.values_SG * (1 + 1e-15 * rng.standard_normal(curve.values_SG.shape))
    )
    peaks, compared = zip(
        *((measure_peak(one), regrets(one, LEVEL)) for one in (curve, rounded)), strict=True
    )
    np.testing.assert_allclose(*peaks, rtol=1e-10)
    np.testing.assert_allclose(*compared, rtol=1e-10)
    exchangeable = (np.ones((5, 5)) + np.eye(5)) / 2
    nudged = exchangeable + 1e-15 * np.diag(rng.standard_normal(5))
    found, other = (_critical(one, 15, LEVEL) for one in (exchangeable, nudged))
    assert found == pytest.approx(other, rel=1e-10)


@pytest.mark.parametrize("values", [-SIZES, SIZES, PATH_MSE])
def test_a_curve_without_a_peak_has_none(values):
    assert math.isnan(fit_peak(SIZES, values, np.ones(6)))


def test_the_set_holds_the_best_and_regret_is_measured():
    """Means 1, 0.9, 0.2 with spread 0.001: the regrets are 0, 0.1 and 0.8."""
    rng = np.random.default_rng(3)
    values = np.array([1.0, 0.9, 0.2]) + 0.001 * rng.standard_normal((8, 3))
    found = regrets(Curve(SIZES[:3], values), LEVEL)
    assert [one.in_set for one in found] == [True, False, False]
    assert [one.value for one in found] == pytest.approx([0, 0.1, 0.8], abs=0.005)
    assert found[1].low < 0.1 < found[1].high


def test_the_best_leaves_the_set_no_more_often_than_said():
    """Four equal means: the one that is called the best is any; each stays in the set."""
    rng, trials = np.random.default_rng(4), 60
    left = sum(
        not regrets(Curve(SIZES[:4], rng.standard_normal((6, 4))), LEVEL)[0].in_set
        for _ in range(trials)
    )
    assert left <= at_most(1 - LEVEL, trials)
    assert left > 0


def test_the_critical_value_is_of_the_largest():
    """Of five independent normals: the 0.95^(1/5) quantile of one, 2.319."""
    expected = stats.norm.ppf(LEVEL ** (1 / 5))
    assert _critical(np.eye(5), 10**6, LEVEL) == pytest.approx(expected, abs=0.04)


def test_what_would_let_a_false_prediction_pass_confirms_none():
    """Log rho known to within 4: zero is inside, and so is log 39 - log 4 = 2.3."""
    predicted = predict(np.random.default_rng(6))
    assert judge_peak(Peak(math.log(RHO), 4.0, 16), predicted, LEVEL) == "undecided"
    assert judge_peak(Peak(math.log(RHO), 0.01, 16), predicted, LEVEL) == "holds"


def test_lack_of_fit_has_its_level_with_unequal_noise():
    rng, trials = np.random.default_rng(5), 300
    found = [lack_of_fit(simulate(rng, seeds=8), PATH_MSE) < 0.05 for _ in range(trials)]
    assert 0 < sum(found) <= at_most(0.05, trials)
    assert math.isnan(lack_of_fit(simulate(rng, seeds=4), PATH_MSE))
