"""The Beta-binomial model: against sums over its law, and fitted to its own draws."""

import numpy as np
import pytest
from scipy import stats

from mse_lab.mse.beta_binomial import BetaBinomial, fit_beta_binomial


@pytest.mark.parametrize(("a", "b"), [(0.3, 0.3), (2.0, 5.0), (40.0, 1.0)])
def test_zero_variance_is_the_law_at_both_ends(a, b):
    """All G right or none: two probabilities of scipy's Beta-binomial."""
    for size in (2, 8, 64):
        law = stats.betabinom(size, a, b)
        expected = law.pmf(0) + law.pmf(size)
        assert BetaBinomial(a, b).zero_variance(size) == pytest.approx(expected)


def test_a_fit_to_the_exact_law_finds_it():
    """Weights are the probabilities themselves, of groups of 6 and of 10."""
    right = np.concatenate([np.arange(7), np.arange(11)])
    sizes = np.repeat([6, 10], [7, 11])
    weights = np.concatenate(
        [stats.betabinom(size, 0.4, 0.9).pmf(np.arange(size + 1)) for size in (6, 10)]
    )
    fit = fit_beta_binomial(right, sizes, weights)
    assert tuple(fit) == pytest.approx((0.4, 0.9), rel=1e-3)


@pytest.mark.parametrize("right", [[0, 0, 0], [8, 8, 8], [4, 4, 4], [0, 0, 8]])
def test_a_fit_to_extremes_is_a_law(right):
    fit = fit_beta_binomial(np.array(right), np.full(3, 8), np.ones(3))
    assert 0 <= fit.zero_variance(16) <= 1 + 1e-9
