"""Means over groups with intervals over prompts: brute force, and groups of one prompt."""

import numpy as np
import pytest
from scipy import stats

from mse_lab.mse.cluster_means import (
    MOST_KINDS,
    cluster_change,
    cluster_mean,
    cluster_share,
)


def test_with_a_group_a_prompt_it_is_students_interval():
    values = np.array([0.0, 1.0, 1.0, 4.0])
    found = cluster_mean(values, np.arange(4), 0.9)
    low, high = stats.t.interval(0.9, 3, values.mean(), stats.sem(values))
    assert found == pytest.approx((1.5, low, high))


def test_where_a_prompt_carries_a_mean_its_interval_is_wider():
    """One of 24 values is not zero: hardly a degree of freedom for the standard error."""
    values = np.where(np.arange(24) == 3, 1.0, 0.0)
    _, low, high = cluster_mean(values, np.arange(24), 0.95)
    assert high - low > 3 * np.ptp(stats.t.interval(0.95, 23, 0, stats.sem(values)))


def test_groups_of_a_prompt_count_once():
    """Every group three times over: three times the groups tell nothing more."""
    values = np.array([0.0, 1.0, 1.0, 4.0])
    once = cluster_mean(values, np.arange(4), 0.9)
    thrice = cluster_mean(np.repeat(values, 3), np.repeat(np.arange(4), 3), 0.9)
    assert thrice == pytest.approx(once)
    shares, rng = values / 4, np.random.default_rng
    once = cluster_share(shares, np.arange(4), 0.9, rng(0))
    codes = np.repeat(np.arange(4), 3)
    assert cluster_share(np.repeat(shares, 3), codes, 0.9, rng(0)) == pytest.approx(once)


def test_a_single_prompt_bounds_nothing():
    values, one = np.array([0.0, 1.0]), np.zeros(2, int)
    found = [cluster_mean(values, one, 0.9), cluster_change(values, values > 0, one, 0.9)]
    assert np.isfinite([one.value for one in found]).all()
    assert np.isnan([one.high for one in found]).all()


def test_a_change_between_prompts_is_a_difference_of_two_samples():
    """Prompts in one part each: variances add, with n - 1 of n."""
    values, later = np.array([0.0, 2.0, 4.0, 1.0, 2.0]), np.array([1, 1, 1, 0, 0]) == 1
    found = cluster_change(values, later, np.arange(5), 0.95)
    error = np.sqrt(4.0 / 3 + 0.5 / 2)  # s^2/n of 0, 2, 4 and of 1, 2
    reach = stats.t.ppf(0.975, 1) * error
    assert found == pytest.approx((0.5, 0.5 - reach, 0.5 + reach))


def test_a_change_within_prompts_is_paired():
    """All prompts change alike: however unlike they are, the change is known."""
    values = np.array([1.0, 5.0, 9.0, 1.5, 5.5, 9.5])
    found = cluster_change(values, np.arange(6) > 2, np.tile(np.arange(3), 2), 0.95)
    assert found == pytest.approx((0.5, 0.5, 0.5))


def test_shares_of_a_group_a_prompt_are_gaffkes():
    """By weights of each prompt, Dirichlet(1, ..., 1), and of an end of the range."""
    shares = np.array([0.0] * 20 + [1.0] * 3 + [0.3, 0.7])
    weights = np.random.default_rng(1).dirichlet(np.ones(26), 40_000)
    means = weights[:, 1:] @ shares
    ends = np.quantile(means, 0.025), np.quantile(means + weights[:, 0], 0.975)
    rng = np.random.default_rng(2)
    found = cluster_share(shares, np.arange(25), 0.95, rng, draws=40_000)
    # Quantiles of 40,000 draws: standard errors of about 0.001.
    assert found == pytest.approx((shares.mean(), *ends), abs=0.006)


def test_an_end_of_the_range_is_as_large_as_the_mean_prompt():
    """Of 20 prompts none has a flagged group, one has 20 groups: one more, of 39/20."""
    sizes = np.array([1] * 19 + [20])
    codes = np.repeat(np.arange(20), sizes)
    found = cluster_share(np.zeros(39), codes, 0.95, np.random.default_rng(0), draws=40_000)
    weights = np.random.default_rng(1).dirichlet(np.ones(21), 40_000)
    parts = weights * np.append(sizes, sizes.mean())
    expected = np.quantile(parts[:, -1] / parts.sum(-1), 0.975)
    assert found.high == pytest.approx(expected, rel=0.03)


def test_shares_of_many_kinds_take_students_interval():
    shares = np.random.default_rng(0).random(MOST_KINDS + 1)
    codes = np.arange(len(shares))
    found = cluster_share(shares, codes, 0.95, np.random.default_rng(0))
    assert found == pytest.approx(cluster_mean(shares, codes, 0.95))
