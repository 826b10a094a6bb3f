"""Moments: those of a pool are unbiased."""

from dataclasses import replace

import numpy as np

from mse_lab.mse.moments import pool_moments
from simulated import make_design


def test_the_least_mean_of_equal_norms_is_the_unbiased_variance():
    """E[(Z-b)^2 ||W||^2] is 2 E(Z-b)^2 then, and b* = V costs a degree of freedom."""
    rng = np.random.default_rng(0)
    pools = make_design(rng, 3).draw(rng, 16, 2, 4)
    eye = np.broadcast_to(2 * np.eye(4), pools.gram_PKGG.shape)
    moments = pool_moments(replace(pools, gram_PKGG=eye))
    found = moments.trace_best + moments.gradient2
    np.testing.assert_allclose(found, 2 * pools.rewards_PN.var(-1, ddof=1), rtol=1e-12)
