"""Measurements of prompts stack into pools."""

from dataclasses import fields

import numpy as np

from measurements import make_measurement
from mse_lab.mse.pools import name_of_all
from mse_lab.results.measurement import PromptArrays, stack


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
    for field in fields(PromptArrays):
        if field.name not in ("mean_D", "difference_D"):
            expected = np.array([getattr(one, field.name) for one in prompts])
            name = name_of_all(field.name)
            assert np.array_equal(getattr(pools, name), expected), name
