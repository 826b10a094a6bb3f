"""Moments: those of a pool are unbiased."""

from dataclasses import replace

import numpy as np

from mse_lab.mse.moments import Moments, completion_moments, pool_moments
from simulated import make_design


def test_the_least_mean_of_equal_norms_is_the_unbiased_variance():
    """E[(Z-b)^2 ||W||^2] is 2 E(Z-b)^2 then, and b* = V costs a degree of freedom."""
    rng = np.random.default_rng(0)
    pools = make_design(rng, 3).draw(rng, 16, 2, 4)
    eye = np.broadcast_to(2 * np.eye(4), pools.gram_PKGG.shape)
    moments = pool_moments(replace(pools, gram_PKGG=eye))
    found = moments.trace_best + moments.gradient2
    np.testing.assert_allclose(found, 2 * pools.rewards_PN.var(-1, ddof=1), rtol=1e-12)


def test_the_parts_of_completions_average_to_the_moments_of_the_pool():
    """Rewards far from 0 and 1, whose square is not their own."""
    rng = np.random.default_rng(1)
    design = make_design(rng, 3)
    graded = replace(design, reward_PC=rng.uniform(-5, -1, design.reward_PC.shape))
    pools = graded.draw(rng, 16, 2, 4)
    whole, parts = pool_moments(pools), completion_moments(pools)
    for name in ("norm2", "reward_norm2", "reward2_norm2"):
        means = getattr(parts, name).mean(0)
        np.testing.assert_allclose(means, getattr(whole, name), rtol=1e-12)


def test_the_noise_of_v_is_that_of_a_mean_over_the_whole_reference():
    rng = np.random.default_rng(2)
    pools = make_design(rng, 3).draw(rng, 16, 2, 4)
    moments = pool_moments(pools)
    assert moments.value_trials == 16
    spread = pools.reference_rewards_PN.var(-1, ddof=1)
    np.testing.assert_allclose(moments.value_variance, spread / 16, rtol=1e-12)


def test_given_moments_are_known():
    """Of what is known nothing is taken off for noise, and V is no mean of completions."""
    ones = np.ones(2)
    one = Moments(ones, ones / 2, ones / 2, ones / 3, ones / 5, ones / 7)
    assert (one.value_trials, one.given_baseline) == (0, None)
    # E[(Z-b)^2 ||W||^2] - ||g||^2 = (1/2 - b + b^2) - 1/7, at V and at b* = 1/2.
    np.testing.assert_allclose(one.trace_oracle, 1 / 2 - 1 / 3 + 1 / 9 - 1 / 7)
    np.testing.assert_allclose(one.trace_best, 1 / 4 - 1 / 7)
