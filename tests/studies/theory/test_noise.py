"""Noise: the parts are those of the exact laws, and of a list of all groups."""

import numpy as np
import pytest

from mse_lab.mse.laws import LAWS
from mse_lab.studies.theory.corollary_9 import enumerated_within
from mse_lab.studies.theory.noise import ESTIMATORS, noise_of


@pytest.fixture
def point(limit):
    return limit.bandit.at(limit.bandit.maximum_D + np.linspace(-0.3, 0.5, 5))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("size", [2, 3, 8])
def test_traces_are_the_laws(point, estimator, size):
    noise = noise_of(estimator, point)
    within = noise.covariance(1, size) - noise.between_DD
    law = LAWS[estimator](point.moments, size).mean()
    assert np.trace(within) == pytest.approx(law, rel=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_covariances_are_those_of_all_groups(point, estimator):
    noise = noise_of(estimator, point)
    for size in (2, 3):
        listed = enumerated_within(point, estimator, size)
        within = noise.covariance(1, size) - noise.between_DD
        np.testing.assert_allclose(within, listed, atol=1e-14)


def test_prompts_and_completions_average(point):
    noise = noise_of("grpo", point)
    np.testing.assert_allclose(noise.covariance(4, 3), noise.covariance(1, 3) / 4)
    between = (point.gradients_PD - point.gradients_PD.mean(0)).T
    np.testing.assert_allclose(noise.between_DD, between @ between.T / between.shape[1])
