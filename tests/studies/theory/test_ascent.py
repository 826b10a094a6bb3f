"""Ascent: draws have the mean and covariance that are enumerated; steps are as given."""

import numpy as np
import pytest

from mse_lab.studies.theory.ascent import Rule, ascend, decaying, draw_gradients
from mse_lab.studies.theory.noise import ESTIMATORS, noise_of

RUNS = 60_000


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_draws_have_the_exact_mean_and_covariance(limit, estimator):
    """Within five of their own standard errors; 60 numbers a case: 3e-5 false alarms."""
    bandit, rule = limit.bandit, Rule(estimator, 2, 3)
    theta = bandit.maximum_D + np.linspace(-0.3, 0.5, 5)
    draws = np.random.default_rng(1)
    found = draw_gradients(bandit, rule, np.repeat(theta[:, None], RUNS, 1), draws)
    point = bandit.at(theta)
    apart = found - point.gradients_PD.mean(0)[:, None]
    covariance = noise_of(estimator, point).covariance(2, 3)
    for drawn, exact in [(apart, 0.0), (apart[:, None] * apart, covariance)]:
        error = drawn.std(-1) / RUNS**0.5 + 1e-15
        assert (np.abs(drawn.mean(-1) - exact) < 5 * error).all()


def test_steps(limit):
    steps, start = decaying(6.0, 2), np.zeros((5, 7)) + limit.bandit.maximum_D[:, None]
    assert [steps(i) for i in (1, 4)] == [2.0, 1.0]
    rule = Rule("grpo", 1, 2)
    found = ascend(limit.bandit, rule, steps, (0, 1, 2), start, np.random.default_rng(0))
    draws, theta = np.random.default_rng(0), start
    for i, kept in enumerate(found):
        np.testing.assert_array_equal(kept, theta)
        theta = theta + steps(i + 1) * draw_gradients(limit.bandit, rule, theta, draws)
    assert len(found) == 3


def test_flat_directions_are_not_moved_in(limit):
    start = np.zeros((5, 20)) + 0.3
    rule = Rule("vanilla", 2, 2)
    draws = np.random.default_rng(0)
    [found] = ascend(limit.bandit, rule, decaying(5.0, 5), (30,), start, draws)
    flat = np.eye(5) - limit.directions_DK @ limit.directions_DK.T
    np.testing.assert_allclose(flat @ found, flat @ start, atol=1e-12)
    assert np.abs(found - start).max() > 0.1
