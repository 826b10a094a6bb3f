"""Lemma 6: the constants hold all over the box, the bounds are the paper's, runs obey."""

from dataclasses import replace

import numpy as np
import pytest

from mse_lab.studies.theory import lemma_6
from mse_lab.studies.theory.ascent import decaying
from mse_lab.studies.theory.lemma_6 import (
    RULE,
    Constants,
    box_constants,
    judge_lemma_6,
    noise_trace,
)

WIDTH = 1.5


@pytest.fixture(scope="module")
def constants(two):
    return box_constants(two, RULE, WIDTH)


def test_the_constants_hold_all_over_the_box_and_are_reached(two, constants):
    """At 20,000 random points; the least and the largest come within a few percent."""
    bandit, draws = two.bandit, np.random.default_rng(0)
    inside = draws.uniform(-WIDTH, WIDTH, (3, 20_000))
    # On the axes, where the least pull is.
    inside[:, :5000] *= np.repeat(np.eye(3), [1667, 1667, 1666], 1)
    theta = bandit.maximum_D[:, None] + two.directions_DK @ inside
    point = bandit.at(theta)
    gap = bandit.value(bandit.maximum_D) - bandit.value(theta)
    pull = np.square(point.gradients_PD.mean(0)).sum(0) / (2 * gap)
    curved = np.abs(np.linalg.eigvalsh(np.moveaxis(point.hessian_DD, -1, 0)))
    noise = noise_trace(point, RULE)
    assert pull.min() >= constants.pull * (1 - 1e-4)
    assert curved.max() <= constants.smoothness * (1 + 1e-4)
    assert noise.max() <= constants.noise * (1 + 1e-4)
    found = pull.min(), curved.max(), noise.max()
    reached = constants.pull, constants.smoothness, constants.noise
    np.testing.assert_allclose(found, reached, rtol=0.05)


def test_the_bound_of_a_constant_step_is_the_papers():
    smooth, pull, noise = known = Constants(0.5, 0.1, 3.0)
    beta, length = 0.8, 40
    rate = 1 - 2 * pull * beta + smooth * pull * beta**2
    level = smooth * beta**2 * noise / (4 * pull * beta - 2 * smooth * pull * beta**2)
    found = known.bound(lambda _: beta, 7.0, length)
    n = np.arange(length + 1)
    np.testing.assert_allclose(found, rate**n * 7 + (1 - rate**n) * level)
    assert (found <= rate**n * 7 + level).all()


def test_the_bound_of_falling_steps_tends_to_the_papers():
    """N times the bound: L beta^2 M / (4 mu beta - 2) = 0.5 x 400 x 3 / 6 = 100."""
    found = Constants(0.5, 0.1, 3.0).bound(decaying(20.0, 200), 7.0, 100_000)
    assert 100_200 * found[-1] == pytest.approx(100, rel=0.01)


def test_runs_obey_and_would_not_with_half_the_noise(one, few):
    findings, table = judge_lemma_6(one, few)
    assert all(finding.control.caught for finding in findings)
    assert "fails" not in [finding.verdict for finding in findings]
    assert "0 of 400 runs leave" in findings[0].protocol
    assert (table["gap"] <= 1.1 * table["bound"]).all()


def test_loose_bounds_do_not_tell(two, few):
    """Of three directions that of a constant step would bear a third of its noise."""
    constant, _ = judge_lemma_6(two, few)[0]
    assert constant.verdict == "undecided"
    assert not constant.control.caught


def test_a_box_that_runs_leave_proves_nothing(one, few, monkeypatch):
    monkeypatch.setattr(lemma_6, "LENGTH", 30)
    monkeypatch.setattr(lemma_6, "WIDE", 0.3)
    findings, _ = judge_lemma_6(one, replace(few, runs=100))
    assert findings[0].verdict == "premise fails"
