"""Bandits: what is enumerated is what finite differences give; the maxima are known."""

import numpy as np
import pytest

from mse_lab.studies.theory.ascent import Rule
from mse_lab.studies.theory.bandit import tabular
from mse_lab.studies.theory.lemma_6 import RULE

NUDGE = 1e-5


def somewhere(bandit, seed=0):
    away = np.random.default_rng(seed).standard_normal(bandit.features_PKD.shape[-1])
    return bandit.maximum_D + 0.5 * away


def differences(function, theta):
    """The derivatives of a function in each parameter."""
    nudges = NUDGE * np.eye(len(theta))
    return np.array(
        [(function(theta + one) - function(theta - one)) / (2 * NUDGE) for one in nudges]
    )


def test_gradient_and_hessian_are_those_of_the_value(limit):
    bandit = limit.bandit
    theta = somewhere(bandit)
    point = bandit.at(theta)
    slope = differences(bandit.value, theta)
    np.testing.assert_allclose(point.gradients_PD.mean(0), slope, atol=1e-9)
    bent = differences(lambda one: bandit.at(one).gradients_PD.mean(0), theta)
    np.testing.assert_allclose(point.hessian_DD, bent, atol=1e-9)


def test_many_runs_at_once_are_each_of_them(limit):
    bandit = limit.bandit
    thetas = np.stack([somewhere(bandit, seed) for seed in range(3)], axis=1)
    together = bandit.at(thetas)
    for run, theta in enumerate(thetas.T):
        alone = bandit.at(theta)
        for name in ("value_P", "norms2_PK", "gradients_PD", "hessian_DD"):
            one = getattr(together, name)[..., run]
            np.testing.assert_allclose(one, getattr(alone, name), atol=1e-12)
        np.testing.assert_allclose(together.moments.zeta[run], alone.moments.zeta)


def test_score_norms_are_those_of_the_scores(limit):
    point = limit.bandit.at(somewhere(limit.bandit))
    np.testing.assert_allclose(point.norms2_PK, (point.scores_PKD**2).sum(-1), atol=1e-12)
    means = np.einsum("pk,pkd->pd", point.probabilities_PK, point.scores_PKD)
    np.testing.assert_allclose(means, 0, atol=1e-12)


def test_the_maximum_of_opposed_prompts_is_as_designed(two):
    """p(1-p)(2p-1)/r for p = 0.79, 0.7, 0.65 and two flat directions."""
    right = np.array([0.79, 0.7, 0.65])
    peak = two.bandit.peak
    np.testing.assert_allclose(peak.value_P, np.tile(right, 2), atol=1e-12)
    np.testing.assert_allclose(peak.gradients_PD.mean(0), 0, atol=1e-14)
    found = np.linalg.eigvalsh(-peak.hessian_DD)
    expected = np.sort(right * (1 - right) * (2 * right - 1) / 3)
    np.testing.assert_allclose(found, [0, 0, *expected], atol=1e-12)


def test_no_direction_favours_the_surrounded_for_ever(six):
    """Far out the best completion of every prompt is a wrong one: it is interior."""
    directions = np.random.default_rng(0).standard_normal((5, 2000))
    scores = six.bandit.features_PKD @ (
        six.directions_DK @ six.directions_DK.T @ directions
    )
    assert (scores[:, 1:].max(1) > scores[:, 0]).all()
    np.testing.assert_allclose(six.bandit.peak.gradients_PD.mean(0), 0, atol=1e-14)
    found = np.linalg.eigvalsh(-six.bandit.peak.hessian_DD)
    assert (np.abs(found[:2]) < 1e-12).all()
    assert (found[2:] > 0.1).all()


def test_flat_directions_change_nothing(limit):
    bandit, inside = limit.bandit, limit.directions_DK @ limit.directions_DK.T
    flat = (np.eye(5) - inside) @ np.array([3.0, -1, 4, 1, -5])
    theta = somewhere(bandit)
    assert np.linalg.norm(flat) > 1
    assert bandit.value(theta + flat) == pytest.approx(bandit.value(theta), abs=1e-13)


def test_crossed_noise_brings_no_curvature(cross):
    """Two of six prompts add up to 1 wherever; the others' curvature is a third of p's."""
    right, point = np.array([0.85, 0.8]), cross.bandit.at(somewhere(cross.bandit))
    assert point.value_P[-2:].sum() == pytest.approx(1)
    found, expected = cross.curvatures_K, right * (1 - right) * (2 * right - 1) / 3
    np.testing.assert_allclose(found, np.sort(expected), atol=1e-12)
    gamma = cross.noise(Rule("grpo", 2, 3))
    assert abs(gamma[0, 1]) / np.sqrt(gamma[0, 0] * gamma[1, 1]) > 0.8
    np.testing.assert_allclose(point.rewards_PK[-2:], [[0, 1 / 3, 2 / 3, 1]] * 2)


def test_a_word_that_the_reward_does_not_see_changes_the_noise_alone(word, two):
    """E||W||^2 of one word of 8 is 7/8; parameters of the word do not change the value."""
    assert word.bandit.peak.moments.norm2 - two.bandit.peak.moments.norm2 == (
        pytest.approx(np.full(6, 7 / 8))
    )
    np.testing.assert_allclose(word.curvatures_K, two.curvatures_K, atol=1e-12)
    np.testing.assert_allclose(word.noise(RULE), two.noise(RULE), atol=1e-12)
    theta = word.bandit.maximum_D.copy()
    theta[-3] += 1.7
    np.testing.assert_allclose(
        word.bandit.value(theta), word.bandit.value(word.bandit.maximum_D)
    )


def test_one_tabular_prompt_only_rises():
    """J = sigma(v_1 - v_2): 1 is approached, never reached."""
    bandit = tabular(2)
    far = np.array([[0.0, 1, 5, 10], [0, -1, -5, -10]])
    np.testing.assert_allclose(bandit.value(far), 1 / (1 + np.exp(-2 * far[0])))
    assert (bandit.at(far).gradients_PD[0, 0] > 0).all()
