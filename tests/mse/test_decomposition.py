"""Biased estimators: the parts of a mean square."""

from itertools import permutations

import numpy as np
import pytest

from mse_lab.mse.curves import Between, decompose


def test_without_a_positive_norm_nothing_divides_by_it():
    parts = decompose(*map(np.array, (1.0, 0.0, 0.0, -0.1)))
    assert np.isnan([parts.slope, parts.cosine, parts.scale_free_mse]).all()
    assert np.isfinite([parts.mse, parts.bias2, parts.variance]).all()


def test_noise_between_prompts_is_that_of_the_references():
    """To first order: rbar(x) + noise (r_A(x) - r_B(x)) / 2; different prompts alone."""
    rng = np.random.default_rng(2)
    rbar, apart = rng.standard_normal((2, 3, 4))
    left, right, noise = rng.standard_normal((3, 3))
    found = Between(rbar @ rbar.T, apart @ rbar.T, noise).form(left, right)
    expected = sum(
        left[x]
        * right[y]
        * (
            rbar[x] @ rbar[y]
            + noise[x] / 2 * apart[x] @ rbar[y]
            + noise[y] / 2 * apart[y] @ rbar[x]
        )
        for x, y in permutations(range(3), 2)
    )
    assert found == pytest.approx(expected)
