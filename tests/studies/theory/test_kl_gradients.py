"""KL terms: each mean gradient by differences of what a trainer differentiates."""

import numpy as np
import pytest
from scipy import stats

from mse_lab.studies.theory.kl_gradients import divergence, judge_kl, mean_gradient
from mse_lab.studies.theory.proposition_13 import slope_of
from mse_lab.studies.theory.sequences import counted

THETA = np.array([0.4, -0.3, 0.8, 0.1])[:, None]


def differentiated(policy, loss):
    """Differentiate sum_y pi(y) sum_t loss(mu_t, r_t) at THETA, pi(y) held."""
    drawn, reference = policy.at(THETA), policy.at(policy.start_DR)

    def total(theta):
        chances = policy.at(theta).chances_NTR
        ratios, others = chances / drawn.chances_NTR, reference.chances_NTR / chances
        return (drawn.probabilities_NR * loss(ratios, others).sum(1)).sum(0)

    return slope_of(total, THETA[:, 0])


def k3(others):
    return others - 1 - np.log(others)


LOSSES = {
    "K1 as a loss": lambda ratios, others: -np.log(others),
    "K3 as a loss": lambda ratios, others: k3(others),
    # TRL 1.16: per_token_kl * coef_1, the ratio not detached.
    "K3 by TRL": lambda ratios, others: ratios * k3(others),
}


@pytest.mark.parametrize("term", LOSSES)
@pytest.mark.parametrize("length", [1, 3])
def test_the_mean_is_the_gradient_of_the_loss(term, length):
    policy = counted(3, length, 4)
    now, reference = policy.at(THETA), policy.at(policy.start_DR)
    found = mean_gradient(term, now, reference)[:, 0]
    expected = differentiated(policy, LOSSES[term])
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_k1_as_a_reward_is_the_gradient_of_kl():
    policy = counted(3, 3, 4)
    reference = policy.at(policy.start_DR)

    def of(theta):
        return divergence(policy.at(theta), reference)

    found = mean_gradient("K1 as a reward", policy.at(THETA), reference)[:, 0]
    np.testing.assert_allclose(found, slope_of(of, THETA[:, 0]), rtol=1e-7)
    law = policy.at(THETA).probabilities_NR[:, 0]
    assert of(THETA)[0] == pytest.approx(stats.entropy(law, np.full(27, 1 / 27)))


def test_only_rewards_and_one_token_have_the_gradient_of_kl():
    findings, tables = judge_kl(counted(3, 3, 6), counted(3, 1, 6))
    assert [one.verdict for one in findings] == ["holds", "holds", "fails", "fails"]
    table = tables["kl"].set_index(["tokens", "distance", "term"])
    assert table["slope"].loc[1, 1.0, "K3 by TRL"] == pytest.approx(1)
    near, far = (table["slope"].loc[3, away, "K3 as a loss"] for away in (0.1, 1.0))
    assert far < 0.6 < 0.9 < near
    assert (table["cosine"] > 0.9).all()
