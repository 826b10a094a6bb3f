"""Step sizes: the level of a constant one, first steps, and no maximum."""

from dataclasses import replace

import numpy as np
import pytest

from mse_lab.studies.theory import step_sizes
from mse_lab.studies.theory.noise import noise_of
from mse_lab.studies.theory.step_sizes import (
    judge_constant_step,
    judge_first_steps,
    judge_tabular,
    judge_unseen_word,
)
from mse_lab.studies.theory.theorem_8 import OFFSET


def test_the_level_is_that_of_the_linear_recursion(two):
    """E Delta = (beta/4) tr Gamma for small beta: S = (1 - beta H) S (1 - beta H) + ..."""
    gamma = noise_of("grpo", two.bandit.peak).covariance(8, 4)
    turned = np.diag(two.directions_DK.T @ gamma @ two.directions_DK)
    beta = 1e-3
    settled = beta**2 * turned / (1 - (1 - beta * two.curvatures_K) ** 2)
    level = (two.curvatures_K * settled).sum() / 2
    assert level == pytest.approx(beta / 4 * np.trace(gamma), rel=1e-4)


def silent_share_of(limit):
    """The chance that no group has both rewards, two prompts of three completions each."""
    value_P = limit.bandit.at(limit.bandit.maximum_D + OFFSET).value_P
    return np.mean(value_P**3 + (1 - value_P) ** 3) ** 2


def test_runs_settle_there_and_the_error_grows(two, few, monkeypatch):
    monkeypatch.setattr(step_sizes, "CONSTANTS", (1.0, 2.0, 4.0, 8.0))
    small, large = judge_constant_step(two, few)
    assert small.control.caught
    assert small.estimate.low < 1 < small.estimate.high
    assert small.verdict == "holds" or small.estimate.high - small.estimate.low > 0.1
    assert large.estimate.low > 1.05


def test_noise_in_flat_directions_does_not_count(word, few):
    found = judge_unseen_word(word, replace(few, runs=150))
    assert found.estimate.low < 1.03 < found.estimate.high
    assert found.control.caught
    assert found.control.says == f"tr Gamma, {0.4934 * found.estimate.value:.2f}"


def test_the_first_steps_of_beta_over_i_leave_the_box(two, few):
    """With six completions all whose estimate is not zero; with many, few or none."""
    shares = [one.estimate.value for one in judge_first_steps(two, few)]
    moved = 1 - silent_share_of(two)
    np.testing.assert_allclose(shares[:2], moved, atol=5 * (moved / 4 / few.runs) ** 0.5)
    assert shares[3] == 0 < shares[2] < shares[1]


def test_without_a_maximum_there_is_no_limit(two, few, monkeypatch):
    """Nor on opposed prompts a growth, which is the control."""
    monkeypatch.setattr(step_sizes, "LENGTHS", (500, 2000))
    found = judge_tabular(two, replace(few, runs=150))
    assert found.verdict == "premise fails"
    assert found.control.caught
    law = float(found.protocol.rpartition(" ")[2])
    assert found.estimate.low - 0.1 < law < found.estimate.high + 0.1
