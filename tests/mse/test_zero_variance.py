"""Zero-variance groups, against enumeration, and the interval of their mean share."""

import itertools

import numpy as np
import pytest
from scipy import stats

from mse_lab.mse.zero_variance import (
    BetaBinomial,
    fit_beta_binomial,
    mean_share,
    modelled_share,
    zero_variance_shares,
)


def test_shares_by_enumeration():
    rewards = np.array([[0, 1, 1, 0, 1, 1, 1], [2, 0, 1, 1, 2, 2, 2], [0] * 7], float)
    for size in range(2, 8):
        groups = list(itertools.combinations(range(7), size))
        shares = zero_variance_shares(rewards, size)
        for row, share in zip(rewards, shares, strict=True):
            alike = sum(len({row[i] for i in group}) == 1 for group in groups)
            assert share == pytest.approx(alike / len(groups), abs=1e-12)


@pytest.mark.parametrize("ones", [0, 3, 20])
def test_of_zeros_and_ones_it_is_clopper_and_pearsons(ones):
    """20,000 draws: within 1%, some three standard errors of a quantile."""
    exact = stats.binomtest(ones, 20).proportion_ci(0.95, method="exact")
    shares = (np.arange(20) < ones) * 1.0
    found = mean_share(shares, 0.95, 20_000, np.random.default_rng(0))
    assert found[1:] == pytest.approx((exact.low, exact.high), abs=0.01)
    assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize("size", [4, 64])
def test_the_interval_covers_where_few_prompts_carry_the_share(size):
    """V in 0.1 to 0.9, 20 prompts of 128: at most 24 of 300 missed, false alarm 1e-2.

    Student's interval covers in about 60% of the runs at G = 64 (negative control).
    """
    rng, inside, student = np.random.default_rng(1), 0, 0
    grid = np.linspace(0.1, 0.9, 100_001)
    truth = (grid**size + (1 - grid) ** size).mean()
    for _ in range(300):
        value_P1 = rng.uniform(0.1, 0.9, (20, 1))
        shares = zero_variance_shares((rng.random((20, 128)) < value_P1) * 1.0, size)
        _, low, high = mean_share(shares, 0.95, 500, rng)
        inside += low <= truth <= high
        reach = stats.t.ppf(0.975, 19) * shares.std(ddof=1) / 20**0.5
        student += abs(shares.mean() - truth) <= reach
    assert inside >= 276
    if size == 64:
        assert student < 240


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


def test_larger_groups_than_were_drawn_go_by_a_beta_law():
    """Of values spread evenly every count of 16 is as likely, and of G groups 2/(G+1)."""
    rewards = [np.repeat([1.0, 0.0], [count, 16 - count]) for count in range(17)]
    assert modelled_share(rewards, 32) == pytest.approx(2 / 33, rel=1e-3)
    assert np.isnan(modelled_share(rewards, 65))
    assert np.isnan(modelled_share([one / 2 for one in rewards], 32))
