"""The limit: weights and mean are those of the exact linear recursion, run to the end."""

import numpy as np
import pytest

from mse_lab.studies.theory.ascent import Rule
from mse_lab.studies.theory.limit import Limit
from mse_lab.studies.theory.noise import ESTIMATORS, noise_of


def recursion(limit, rule, steps=20_000):
    """N times the covariance after n steps beta/i of theta += eta (noise - H theta)."""
    turned = limit.directions_DK
    noise = noise_of(rule.estimator, limit.bandit.peak).covariance(rule.batch, rule.size)
    gamma, found = turned.T @ noise @ turned, np.zeros((3, 3))
    for i in range(50, steps):
        eta = limit.beta / i
        kept = 1 - eta * limit.curvatures_K
        found = kept[:, None] * found * kept + eta**2 * gamma
    return steps * found


@pytest.mark.parametrize("estimator", ["grpo", "vanilla"])
def test_weights_are_those_of_the_linear_recursion(limit, estimator):
    rule = Rule(estimator, 3, 4)
    root = np.sqrt(limit.curvatures_K)
    half = root[:, None] * recursion(limit, rule) * root / 2
    np.testing.assert_allclose(limit.weights(rule), np.linalg.eigvalsh(half), rtol=2e-3)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_constants_add_up_to_the_weights(limit, estimator):
    between, within, pairs = limit.constants(estimator)
    for batch, size in [(1, 2), (3, 5)]:
        whole = (between + within / size + pairs / (size * (size - 1))) / batch
        assert limit.weights(Rule(estimator, batch, size)).sum() == pytest.approx(whole)


def test_the_best_size_is_the_least_of_the_limit(six):
    sizes = np.linspace(2, 12, 2001)
    between, within, pairs = six.constants("grpo")
    curve = between * sizes + within + pairs / (sizes - 1)
    assert sizes[curve.argmin()] == pytest.approx(six.best_size, abs=0.01)


def test_directions_are_those_that_are_not_flat(two):
    peak = two.bandit.peak.hessian_DD
    rebuilt = -two.directions_DK * two.curvatures_K @ two.directions_DK.T
    np.testing.assert_allclose(rebuilt, peak, atol=1e-12)
    assert two.curvatures_K.shape == (3,)
    assert Limit(two.bandit, 0.5).beta * two.curvatures_K[0] == pytest.approx(0.5)


def test_how_far_runs_have_been(two):
    apart = np.zeros((2, 5, 2))
    apart[1, :, 0] = two.directions_DK @ np.array([0.1, -0.7, 0.2])
    flat = np.eye(5) - two.directions_DK @ two.directions_DK.T
    apart[0, :, 1] = flat @ np.ones(5)
    found = two.away(two.bandit.maximum_D[:, None] + apart)
    np.testing.assert_allclose(found, [0.7, 0.0], atol=1e-12)
