"""Weights from the batch: hand values, slow loops, and public formulas."""

import numpy as np
import pytest
from scipy import stats
from toy import make_batch, make_groups

from mse_lab.errors import InputError
from mse_lab.estimators import ESTIMATORS
from mse_lab.estimators.baselines import grpo
from mse_lab.estimators.batch import (
    batch_std,
    bnpo,
    global_mean,
    reinforce_plus_plus,
    shrinkage,
)

BATCH = make_batch([1, 0, 0, 0], [1, 1, 0, 0])


@pytest.fixture
def random_batches():
    rng = np.random.default_rng(5)
    return make_groups(rng.normal(size=(6, 4, 5)) + rng.normal(size=(6, 1, 1)))


@pytest.fixture
def binary_batches():
    rng = np.random.default_rng(6)
    chance = rng.uniform(0.1, 0.9, size=(7, 1, 1))
    return make_groups((rng.uniform(size=(7, 30, 4)) < chance).astype(float))


@pytest.mark.parametrize(
    ("weights", "first", "second", "over"),
    [
        # The other prompt's mean: 1/2 for the first, 1/4 for the second.
        (global_mean, [2, -2, -2, -2], [3, 3, -1, -1], 4),
        # m = 3/8, s^2 = (3 * 25 + 5 * 9) / 64 / 7 = 15/56.
        (reinforce_plus_plus, [5, -3, -3, -3], [5, 5, -3, -3], 8 * np.sqrt(15 / 56)),
        # The groups' own means, 1/4 and 1/2, by the same s.
        (batch_std, [3, -1, -1, -1], [2, 2, -2, -2], 4 * np.sqrt(15 / 56)),
        # One other prompt: s = 0, v > 0, so lam = 1/2 * 1: half grpo, half global-mean.
        # First: 1/2 (1, -1/3, -1/3, -1/3) + 1/2 (1/2, -1/2, -1/2, -1/2).
        # Second: 1/2 (2/3, 2/3, -2/3, -2/3) + 1/2 (3/4, 3/4, -1/4, -1/4).
        (shrinkage, [18, -10, -10, -10], [17, 17, -11, -11], 24),
    ],
)
def test_by_hand(weights, first, second, over):
    expected = np.array([[first], [second]]) / over
    np.testing.assert_allclose(weights(BATCH), expected, rtol=1e-14)


def test_bnpo_by_hand():
    # Means 1/4, 1/2: m = 3/8, v = 1/32, concentration 15/64 * 32 - 1 = 13/2,
    # a = 39/16, b = 65/16, so the law is Beta(29/16, 113/48).
    density = stats.beta(29 / 16, 113 / 48).pdf([1 / 4, 1 / 2])
    expected = [np.array([[3, -1, -1, -1]]) / 4, np.array([[2, 2, -2, -2]]) / 4]
    expected = np.array(expected) / density[:, None, None]
    np.testing.assert_allclose(bnpo(BATCH), expected, rtol=1e-12)


def test_bnpo_clips_the_law_to_the_uniform():
    # Means 0, 1/4, 1: m = 5/12, v = 13/48, concentration 35/144 * 48/13 - 1 = -4/39, so
    # a and b are below 0, the law is Beta(1, 1) and its density 1.
    found = bnpo(make_batch([0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]))
    np.testing.assert_allclose(found[1], [[0.75, -0.25, -0.25, -0.25]], rtol=1e-12)


def test_bnpo_of_equal_means_is_zero():
    assert not bnpo(make_batch([1, 0, 0], [0, 1, 0], [0, 0, 1])).any()


def test_bnpo_caps_the_reciprocal():
    """Mean 1/300 once and 1/2 elsewhere: alpha is about 51, the density below 1e-100."""
    rewards = np.zeros((300, 1, 300))
    rewards[:, 0, :150] = 1
    rewards[0, 0, 1:] = 0
    found = bnpo(make_groups(rewards))
    # 1e6 times 1 - 1/300.
    assert found[0, 0, 0] == pytest.approx(1e6 * 299 / 300, rel=1e-9)
    assert abs(found[1:]).max() < 1


def bnpo_loop(rewards_PG):
    """The same by SciPy's density, a replicate at a time."""
    means = rewards_PG.mean(1)
    mean, variance = means.mean(), means.var(ddof=1)
    concentration = mean * (1 - mean) / variance - 1
    law = stats.beta(
        max(1, 1 + mean * concentration / 3), max(1, 1 + (1 - mean) * concentration / 3)
    )
    weights = np.zeros(rewards_PG.shape)
    for row, own in zip(weights, rewards_PG, strict=True):
        if np.ptp(own) > 0:
            row[:] = (own - own.mean()) * min(1 / law.pdf(own.mean()), 1e6)
    return weights


def test_bnpo_is_a_loop(binary_batches):
    rewards = binary_batches.rewards_PRG
    found = bnpo(binary_batches)
    for replicate in range(rewards.shape[1]):
        expected = bnpo_loop(rewards[:, replicate])
        np.testing.assert_allclose(found[:, replicate], expected, rtol=1e-9, atol=1e-12)


def shrinkage_loop(rewards_PG):
    """The table's equations, word for word."""
    prompts, size = rewards_PG.shape
    means = [row.mean() for row in rewards_PG]
    weights = np.empty(rewards_PG.shape)
    for x in range(prompts):
        others = [k for k in range(prompts) if k != x]
        mu = np.mean([means[k] for k in others])
        v = np.mean(
            [
                sum((r - means[k]) ** 2 for r in rewards_PG[k]) / (size * (size - 1))
                for k in others
            ]
        )
        s = np.mean([(means[k] - mu) ** 2 for k in others])
        lam = (prompts - 1) / prompts * v / (v + s) if v + s > 0 else 0.0
        for i in range(size):
            own = np.delete(rewards_PG[x], i).mean()
            weights[x, i] = rewards_PG[x, i] - ((1 - lam) * own + lam * mu)
    return weights


def test_shrinkage_is_a_loop(random_batches, binary_batches):
    for batches in (random_batches, binary_batches):
        found = shrinkage(batches)
        for replicate in range(found.shape[1]):
            expected = shrinkage_loop(batches.rewards_PRG[:, replicate])
            np.testing.assert_allclose(found[:, replicate], expected, atol=1e-12)


def test_shrinkage_is_grpo_where_the_others_have_no_noise():
    """Equal rewards inside each other group: v = 0 exactly, though 0.1 does round."""
    batch = make_batch([1, 0, 0.5], [0.1, 0.1, 0.1], [0.1, 0.1, 0.1])
    np.testing.assert_array_equal(shrinkage(batch)[0], grpo(batch)[0])


def test_trl_batch_scaling(random_batches):
    """scale_rewards="batch": group means, one sample std of all rewards, eps 1e-4."""
    rewards = random_batches.rewards_PRG
    found = batch_std(random_batches, eps=1e-4)
    for replicate in range(rewards.shape[1]):
        batch = rewards[:, replicate]
        expected = batch - batch.mean(1, keepdims=True)
        expected /= batch.reshape(-1).std(ddof=1) + 1e-4
        np.testing.assert_allclose(found[:, replicate], expected, rtol=1e-12)


@pytest.mark.parametrize("name", [n for n, e in ESTIMATORS.items() if not e.group_local])
def test_replicates_are_batches_of_their_own(name, binary_batches):
    """Any one replicate alone gives the weights it has among the others."""
    weights = ESTIMATORS[name].weights
    together = weights(binary_batches)
    for replicate in range(3):
        alone = weights(make_groups(binary_batches.rewards_PRG[:, [replicate]]))
        np.testing.assert_allclose(alone[:, 0], together[:, replicate], atol=1e-13)


@pytest.mark.parametrize("name", [n for n, e in ESTIMATORS.items() if e.smallest_batch > 1])
def test_one_prompt_is_refused(name):
    with pytest.raises(InputError, match=f"{name} needs two prompts or more"):
        ESTIMATORS[name].weights(make_groups([1, 0, 0, 0]))


def test_bnpo_refuses_rewards_between():
    with pytest.raises(InputError, match=r"bnpo needs rewards of 0 or 1, not 0\.25"):
        bnpo(make_batch([1, 0.25], [0, 1]))
