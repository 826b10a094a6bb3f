"""Biased estimators: the parts of a mean square, of one prompt and of the aggregate."""

from itertools import permutations

import numpy as np
import pytest

from enumerated import random_enumerated
from mse_lab.estimators import ESTIMATORS
from mse_lab.mse.decomposition import Between, aggregate, decompose
from mse_lab.mse.laws import find_law


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


@pytest.mark.parametrize("name", ["centred", "grpo-std", "maxrl", "grpo"])
def test_aggregate_of_enumerated_prompts(name):
    """Variance adds up over P^2, biases add up as vectors."""
    rng = np.random.default_rng(0)
    prompts = [random_enumerated(rng) for _ in range(3)]
    estimator, size = ESTIMATORS[name], 4
    means = [one.mean_estimate(estimator, size) for one in prompts]
    gradients = np.array([one.gradient for one in prompts])
    mse = np.array([one.mse(estimator, size) for one in prompts])
    bias2 = np.array([((u - g) ** 2).sum() for u, g in zip(means, gradients, strict=True)])
    mean, gradient = np.mean(means, axis=0), gradients.mean(0)
    variance = (mse - bias2).sum() / 9
    slopes = [
        find_law(estimator, size, binary=True)(one.moments()).slope[0] for one in prompts
    ]
    # The diagonal of the products between prompts must not be used.
    between = Between(gradients @ gradients.T + 7 * np.eye(3), np.zeros((3, 3)))
    found = aggregate(mse, np.array(slopes), (gradients**2).sum(-1), between)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-9)
    np.testing.assert_allclose(found.bias2, ((mean - gradient) ** 2).sum(), atol=1e-12)
    np.testing.assert_allclose(found.mse, variance + found.bias2, rtol=1e-9)
    np.testing.assert_allclose(
        found.slope, mean @ gradient / (gradient @ gradient), rtol=1e-9
    )
    cosine = mean @ gradient / np.linalg.norm(mean) / np.linalg.norm(gradient)
    np.testing.assert_allclose(found.cosine, cosine, rtol=1e-9)
    second = variance + mean @ mean
    scale_free = gradient @ gradient - (mean @ gradient) ** 2 / second
    np.testing.assert_allclose(found.scale_free_mse, scale_free, rtol=1e-9)


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
