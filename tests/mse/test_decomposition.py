"""Biased estimators: the parts of a mean square."""

from itertools import permutations

import numpy as np
import pytest

from mse_lab.mse.decomposition import Between, decompose


def test_hand_values():
    """With u = (2, 0), g = (1, 1), variance 3: bias^2 = 1 + 1, MSE 5, E||g_hat||^2 = 7."""
    parts = decompose(np.array(5.0), np.array(4.0), np.array(2.0), np.array(2.0))
    assert parts.bias2 == 2
    assert parts.variance == 3
    assert parts.slope == 1
    np.testing.assert_allclose(parts.cosine, 2 / np.sqrt(8))
    np.testing.assert_allclose(parts.scale_free_mse, 2 - 4 / 7)


def test_scale_free_mse_does_not_change_with_the_scale():
    """The estimate a g_hat has u -> a u, and the same scale-free MSE, by its definition."""
    inner, mean2, norm2, second = 2.0, 4.0, 2.0, 7.0
    found = [
        decompose(
            *map(
                np.array,
                (a**2 * second - 2 * a * inner + norm2, a**2 * mean2, a * inner, norm2),
            )
        ).scale_free_mse
        for a in (0.1, 1.0, 30.0)
    ]
    np.testing.assert_allclose(found, found[0], rtol=1e-12)


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


def test_the_scale_free_mse_grows_with_the_mse_as_is_said():
    mse, others = 5.0, (np.array(4.5), np.array(1.5), np.array(2.0))
    below, above = (decompose(np.array(mse + h), *others) for h in (-1e-4, 1e-4))
    slope = (above.scale_free_mse - below.scale_free_mse) / 2e-4
    assert decompose(np.array(mse), *others).scale_free_growth == pytest.approx(
        slope, rel=1e-6
    )
