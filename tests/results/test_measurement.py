"""Measurements of prompts stack into pools."""

import numpy as np

from measurements import make_measurement
from mse_lab.results.measurement import stack


def test_stacked_pools_hold_each_prompts_numbers_and_the_products_between_them():
    rng = np.random.default_rng(1)
    prompts = [make_measurement(rng).arrays for _ in range(3)]
    pools = stack(prompts)
    means, differences = (
        np.array([getattr(one, name) for one in prompts], float)
        for name in ("mean_D", "difference_D")
    )
    assert np.allclose(pools.between_PP, means @ means.T, rtol=1e-12)
    assert np.allclose(pools.halves_PP, differences @ means.T, rtol=1e-12)
    for name, of_one in [
        ("rewards_PN", "rewards_N"),
        ("lengths_PN", "lengths_N"),
        ("gram_PKGG", "gram_KGG"),
        ("products_PN", "products_N"),
        ("reference_rewards_PN", "reference_rewards_N"),
        ("reference_product_P", "reference_product"),
        ("reference_distance2_P", "reference_distance2"),
        ("kind_norms2_PNM", "kind_norms2_NM"),
        ("kind_products_PM", "kind_products_M"),
    ]:
        expected = np.array([getattr(one, of_one) for one in prompts])
        assert np.array_equal(getattr(pools, name), expected), name
