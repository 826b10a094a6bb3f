"""Pools: products of long vectors, and moments that no half knows of the other."""

import numpy as np
from simulated import make_design

from mse_lab.pools import CHUNK, inner_products


def test_products_run_over_all_numbers():
    """Vectors longer than what is turned into float64 at a time, and no multiple of it."""
    rng = np.random.default_rng(0)
    left, right = (
        [rng.standard_normal(2 * CHUNK + 3).astype(np.float32) for _ in range(count)]
        for count in (2, 3)
    )
    expected = np.array(left, float) @ np.array(right, float).T
    np.testing.assert_allclose(inner_products(left, right), expected, rtol=1e-9)


def test_the_aggregates_squared_gradient_is_unbiased():
    """Over 400 references of 8, within four standard errors; ||mean rbar||^2 is not."""
    rng = np.random.default_rng(0)
    design = make_design(rng, 5)
    drawn = [design.draw(rng, 8, 2, 2) for _ in range(400)]
    mean = design.gradient_PD.mean(0)

    def off(values):
        return (np.mean(values) - mean @ mean) / (np.std(values, ddof=1) / 20)

    assert abs(off([pools.aggregate_norm2 for pools in drawn])) < 4
    assert off([pools.between_PP.mean() for pools in drawn]) > 10
