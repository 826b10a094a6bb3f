"""A shared rollout: each mean gradient is that of the loss that trainers differentiate."""

import numpy as np
import pytest

from mse_lab.studies.theory.proposition_13 import slope_of
from mse_lab.studies.theory.rollout import CLIP, KAPPA, Rollout
from mse_lab.studies.theory.sequences import counted

THETA = np.array([0.4, -0.3, 0.8, 0.1])[:, None]


@pytest.fixture(scope="module")
def rollout():
    return Rollout(counted(3, 2, 4))


@pytest.fixture(scope="module")
def now(rollout):
    return rollout.policy.at(THETA)


def differentiated(rollout, loss):
    """Differentiate E_0[sum_t loss(mu_t, r_t, A)], r_t = pi_ref/pi, at THETA."""
    start = rollout.start
    advantages = (start.rewards_N1 - start.value_R)[:, None]

    def total(theta):
        chances = rollout.policy.at(theta).chances_NTR
        ratios, others = (
            chances / start.chances_NTR,
            rollout.reference.chances_NTR / chances,
        )
        return (start.probabilities_NR * loss(ratios, others, advantages).sum(1)).sum(0)

    return slope_of(total, THETA[:, 0])


def test_token_ratios_have_the_gradient_of_the_surrogate(rollout, now):
    """Rewards or advantages: a constant has no gradient."""
    found = differentiated(rollout, lambda ratios, _, advantages: ratios * advantages)
    np.testing.assert_allclose(rollout.by_token(now)[:, 0], found, rtol=1e-7)


def test_the_clip_is_that_of_ppo_s_objective(rollout, now):
    def loss(ratios, _, advantages):
        kept = np.clip(ratios, 1 - CLIP, 1 + CLIP)
        return np.minimum(ratios * advantages, kept * advantages)

    found, share = rollout.clipped(now)
    np.testing.assert_allclose(found[:, 0], differentiated(rollout, loss), rtol=1e-7)
    assert 0.1 < share < 0.9


def test_the_share_of_clipped_tokens_by_counting(rollout, now):
    clipped, right = 0.0, rollout.policy.rewards_N
    ratios, chances = rollout.ratios(now)[..., 0], rollout.start.probabilities_NR[:, 0]
    for n, ratio_T in enumerate(ratios):
        for ratio in ratio_T:
            beyond = ratio > 1 + CLIP if right[n] else ratio < 1 - CLIP
            clipped += chances[n] * beyond / len(ratio_T)
    assert rollout.clipped(now)[1] == pytest.approx(clipped)


def test_all_of_it_has_the_gradient_of_the_loss_with_sd_and_k3(rollout, now):
    """Off its target, which on policy is that of 2 arcsin sqrt V and of K3 there."""
    sd = rollout.start.sd_R[0]
    found = differentiated(
        rollout,
        lambda ratios, others, advantages: (
            ratios * advantages / sd - KAPPA * (others - 1 - np.log(others))
        ),
    )
    objective = slope_of(
        lambda theta: 2 * np.arcsin(np.sqrt(rollout.policy.at(theta).value_R)), THETA[:, 0]
    )
    pull = 1 - Rollout(rollout.policy).reference.chances_NTR / now.chances_NTR
    target = objective - KAPPA * now.mean(now.probabilities_NR, pull)[:, 0]
    np.testing.assert_allclose(rollout.bias_of_all(now)[:, 0], found - target, rtol=1e-6)


def test_nothing_is_biased_at_the_start_and_the_whole_ratio_nowhere(rollout, now):
    for bias in (rollout.bias, rollout.bias_of_all):
        np.testing.assert_allclose(bias(rollout.start), 0, atol=1e-15)
    np.testing.assert_allclose(rollout.by_sequence(now), now.gradient_DR, atol=1e-15)
    assert np.abs(rollout.bias(now)).max() > 0.01


def test_minibatches_move_runs_by_the_gradient_on_average(rollout):
    """After one minibatch, by 4 errors: false alarm 1 in 4,000 for 4 parameters."""
    moved_DR = rollout.train(3, 1.0, 1, 4000, np.random.default_rng(1))[0]
    error_D = moved_DR.std(1) / np.sqrt(4000)
    true_D = rollout.start.gradient_DR[:, 0]
    assert (np.abs(moved_DR.mean(1) - true_D) < 4 * error_D).all()
    assert (np.abs(true_D) > 4 * error_D).any()


def test_a_minibatch_whose_rewards_are_equal_moves_nothing(rollout):
    still = (rollout.train(2, 1.0, 1, 2000, np.random.default_rng(2))[0] == 0).all(0).mean()
    assert still == pytest.approx(5 / 9, abs=4 * np.sqrt(20 / 81 / 2000))
