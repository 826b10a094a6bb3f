"""Standardised weights: hand values, public bugs, known slopes, public formulas."""

from functools import partial
from math import comb, sqrt

import numpy as np
import pytest
from toy import make_groups

from mse_lab.estimators.standardised import grpo_loo_std, grpo_std, median, quantile

GROUP = make_groups([1, 0, 0, 0])


def slope(weights, size, value):
    """Exact slope for rewards in {0, 1}: <E g_hat, g> / ||g||^2, c right ~ Binomial."""
    total = 0.0
    for right in range(size + 1):
        probability = comb(size, right) * value**right * (1 - value) ** (size - right)
        rewards = np.array([1.0] * right + [0.0] * (size - right))
        found = weights(make_groups(rewards))[0, 0]
        total += probability * found @ (rewards / value - (1 - rewards) / (1 - value))
    return total / size


def test_grpo_std_by_hand():
    # Zbar = 1/4, s^2 = (9 + 3) / 16 / 3 = 1/4: 3/4 / (1/2) and -1/4 / (1/2).
    np.testing.assert_allclose(grpo_std(GROUP), [[[1.5, -0.5, -0.5, -0.5]]], rtol=1e-14)


def test_grpo_std_with_the_population_by_hand():
    # s^2 = (9 + 3) / 16 / 4 = 3/16: 3/4 / (sqrt 3 / 4) = sqrt 3.
    found = grpo_std(GROUP, ddof=0)
    np.testing.assert_allclose(found, np.array([[[3, -1, -1, -1]]]) / sqrt(3), rtol=1e-14)


def test_grpo_loo_std_by_hand():
    # grpo's 1, -1/3, -1/3, -1/3 by s = 1/2.
    expected = [[[2, -2 / 3, -2 / 3, -2 / 3]]]
    np.testing.assert_allclose(grpo_loo_std(GROUP), expected, rtol=1e-14)


def test_median_by_hand():
    # med = 0, MAD = 0; three stand at the median, one is not counted: 4/3 * 1 / 1e-3.
    np.testing.assert_allclose(median(GROUP), [[[4000 / 3, 0, 0, 0]]], rtol=1e-14)
    # med = 2, distances 2, 1, 0, 1, 5, MAD = 1: 5/4 * distance / (1 + 1).
    found = median(make_groups([0, 1, 2, 3, 7]), eps=1.0)
    np.testing.assert_allclose(found, [[[-1.25, -0.625, 0, 0.625, 3.125]]], rtol=1e-14)


def test_median_counts_all_where_none_stands_at_it():
    # med = 1/2, every distance 1/2, MAD = 1/2: 1/2 / (1/2 + 1/2), no factor 4/3.
    found = median(make_groups([1, 1, 0, 0]), eps=0.5)
    assert found.tolist() == [[[0.5, 0.5, -0.5, -0.5]]]


def test_quantile_by_hand():
    # F(0) = 3/4 >= 0.4, so b = 0; s = 1/2.
    np.testing.assert_allclose(quantile(GROUP), [[[2, 0, 0, 0]]], rtol=1e-14)
    # Three right of four: F(0) = 1/4 < 0.4, so b = 1; s = 1/2.
    found = quantile(make_groups([1, 1, 1, 0]))
    np.testing.assert_allclose(found, [[[0, 0, 0, -2]]], rtol=1e-14)


@pytest.mark.parametrize("size", [5, 8, 20, 25])
@pytest.mark.parametrize("level", [0.2, 0.28, 0.4, 0.6])
def test_quantile_baseline_is_zero_up_to_one_minus_level(size, level):
    """Counted in whole percents, which no rounding touches."""
    for right in range(1, size):
        found = quantile(make_groups([1] * right + [0] * (size - right)), level=level)[0, 0]
        rewards_the_right = 100 * right <= (100 - round(100 * level)) * size
        assert (found[0] > 0) == rewards_the_right
        assert (found[-1] < 0) == (not rewards_the_right)


@pytest.mark.parametrize("value", [0.1, 0.5, 0.8])
@pytest.mark.parametrize(
    ("size", "ddof", "expected"),
    [(2, 0, 1.0), (3, 0, sqrt(2)), (2, 1, sqrt(1 / 2)), (3, 1, sqrt(4 / 3))],
)
def test_slope_of_small_groups(size, ddof, expected, value):
    """G = 2: w = +-1 whenever they differ. G = 3: sqrt 2 and 1 / sqrt 2. Any V."""
    found = slope(partial(grpo_std, ddof=ddof), size, value)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("value", [0.2, 0.5])
@pytest.mark.parametrize("size", [2, 5, 16])
def test_slope_of_grpo_std_as_documented(size, value):
    roots = sum(
        comb(size, c) * value**c * (1 - value) ** (size - c) * sqrt(c * (size - c))
        for c in range(size + 1)
    )
    expected = sqrt((size - 1) / size**3) * roots / (value * (1 - value))
    assert slope(grpo_std, size, value) == pytest.approx(expected, rel=1e-12)
    loo = slope(grpo_loo_std, size, value)
    assert loo == pytest.approx(expected * size / (size - 1), rel=1e-12)


def test_slope_of_grpo_std_tends_to_the_arcsine():
    """d/dV 2 arcsin sqrt V = 1 / sqrt(V (1-V)); the gap shrinks like 1/G."""
    limit = 1 / sqrt(0.3 * 0.7)
    gaps = [abs(slope(grpo_std, size, 0.3) - limit) for size in (50, 100, 200)]
    assert gaps[2] < 0.01 * limit
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.05)
    assert gaps[1] / gaps[2] == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("size", [3, 5, 9])
def test_slope_of_median_in_odd_groups_as_documented(size):
    value, total = 0.3, 0.0
    for c in range(size + 1):
        probability = comb(size, c) * value**c * (1 - value) ** (size - c)
        total += probability * (c / value if 2 * c < size else (size - c) / (1 - value))
    expected = total / (1e-3 * (size - 1))
    assert slope(median, size, value) == pytest.approx(expected, rel=1e-12)


def test_group_scaling_of_trl():
    """TRL's default: (r - mean) / (std + 1e-4), sample std; ours differ by no group."""
    rewards = np.random.default_rng(3).integers(0, 2, size=(40, 1, 8)).astype(float)
    mean, std = rewards.mean(-1, keepdims=True), rewards.std(-1, ddof=1, keepdims=True)
    found = grpo_std(make_groups(rewards), eps=1e-4)
    np.testing.assert_allclose(found, (rewards - mean) / (std + 1e-4), atol=1e-12)
