"""Weighted sums of chi-squares: closed forms, Imhof's integral, draws."""

import numpy as np
import pytest
from scipy import integrate, stats

from mse_lab.studies.theory.chi_squares import cdf


def imhof(point, weights):
    """P(sum <= q) = 1/2 - (1/pi) int_0^inf sin(angle) / (u size) du (Imhof 1961)."""

    def integrand(u):
        angle = np.arctan(weights * u).sum() / 2 - point * u / 2
        return np.sin(angle) / (u * np.prod((1 + (weights * u) ** 2) ** 0.25))

    value, _ = integrate.quad(integrand, 0, 400, limit=2000, epsabs=1e-10)
    return 0.5 - value / np.pi


@pytest.mark.parametrize("degrees", [1, 2, 5])
def test_equal_weights_are_a_chi_square(degrees):
    points = stats.chi2.ppf([1e-9, 0.01, 0.5, 0.99, 1 - 1e-9], degrees)
    found = cdf(0.3 * points, np.full(degrees, 0.3))
    np.testing.assert_allclose(found, stats.chi2.cdf(points, degrees), rtol=1e-9)


def test_pairs_of_weights_are_sums_of_exponentials():
    """A and b twice each: 1 - (a exp(-q/2a) - b exp(-q/2b)) / (a - b), to the far tails."""
    a, b = 2.0, 0.5
    points = np.array([1e-4, 0.1, 1.0, 5.0, 30.0, 90.0])
    exact = 1 - (a * np.exp(-points / (2 * a)) - b * np.exp(-points / (2 * b))) / (a - b)
    np.testing.assert_allclose(cdf(points, np.array([a, b, b, a])), exact, atol=1e-11)
    # In the lower tail the closed form cancels: q^2 / (8 a b) there.
    low = cdf(np.array([1e-6]), np.array([a, b, b, a]))
    np.testing.assert_allclose(low, 1e-12 / (8 * a * b), rtol=1e-5)


def test_as_imhof():
    weights = np.array([3.0, 1.0, 0.4, 0.2, 0.1])
    for point in (0.3, 2.0, 6.0, 20.0):
        assert cdf(point, weights) == pytest.approx(imhof(point, weights), abs=1e-6)


def test_as_drawn():
    """Kolmogorov's test at 0.001 on fixed draws; and it refutes other weights."""
    weights = np.array([2.0, 0.7, 0.1])
    drawn = np.random.default_rng(0).chisquare(1, (2000, 3)) @ weights
    assert stats.kstest(drawn, lambda q: cdf(q, weights)).pvalue > 1e-3
    assert stats.kstest(drawn, lambda q: cdf(q, weights * 1.2)).pvalue < 1e-3


def test_weights_too_far_apart_are_refused():
    with pytest.raises(ValueError, match="too far apart"):
        cdf(1.0, np.array([1.0, 1e-6]))
