"""What all estimators share: bias as declared, symmetry, and groups without contrast."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from toy import make_groups, toy_policy

from every_estimator import EVERY
from mse_lab.estimators import find_estimator
from mse_lab.estimators.objectives import Length

BINARY = [name for name, one in EVERY.items() if one.binary]
ANY_REWARDS = [name for name in EVERY if name not in BINARY]
UNBIASED = [name for name, one in EVERY.items() if one.unbiased]
BY_LENGTH = [{"name": "grpo", "length": one} for one in get_args(Length)[1:]]
BIASED = [one for one in EVERY.values() if not one.unbiased]
BIASED += [find_estimator(entry) for entry in BY_LENGTH]
LOCAL = [name for name, one in EVERY.items() if one.group_local]
KEEPS_EQUAL_GROUPS = {"vanilla", "oracle", "best-constant"}
KEEPS_EQUAL_GROUPS |= {"global-mean", "reinforce++", "shrinkage"}
OVER_BATCH = [name for name in EVERY if "over=batch" in name]
CONSTANTS = ["affine(alpha=0.2, lambda=0.4)", "constant(alpha=0.3)"]
KEEPS_EQUAL_GROUPS |= {*OVER_BATCH, *CONSTANTS}
SUMS_TO_ZERO = ["grpo", "centred", "grpo-std", "grpo-loo-std", "maxrl", "batch-std", "bnpo"]
SHIFTS = [name for name in ANY_REWARDS if name not in KEEPS_EQUAL_GROUPS]
SHIFTS += ["global-mean", "reinforce++", "shrinkage", *OVER_BATCH]
# What completion i is compared with holds nothing of its own.
OWN_REWARD_STAYS_OUT = ["grpo", "best-constant-loo", "opo-loo", "global-mean", "shrinkage"]
OWN_REWARD_STAYS_OUT += [name for name in EVERY if name.startswith("norm-weighted")]
OWN_REWARD_STAYS_OUT += CONSTANTS

FEW = settings(max_examples=40)


@st.composite
def batches(draw, binary=False):
    """One to three replicates of two to four prompts, groups of two to six."""
    shape = tuple(draw(st.integers(*ends)) for ends in ((2, 4), (1, 3), (2, 6)))
    # Tenths are no binary fractions, so rounding has its chance.
    tenths = st.sampled_from([0.0, 1.0] if binary else [k / 10 for k in range(-20, 21)])
    rewards = draw(hnp.arrays(float, shape, elements=tenths))
    lengths = draw(hnp.arrays(np.int64, shape, elements=st.integers(1, 30)))
    norms2 = draw(hnp.arrays(float, shape, elements=st.floats(0.01, 100)))
    return make_groups(rewards, lengths, norms2, 0.3, 0.6, np.sqrt(norms2))


def with_rewards(groups, rewards):
    return replace(groups, rewards_PRG=rewards)


def weights_of(name, groups):
    return EVERY[name].weights(groups)


def scale_of(weights):
    return max(1.0, abs(weights).max())


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", UNBIASED)
def test_unbiased_as_declared(name, size):
    """Every batch of three prompts, summed: E g_hat is the gradient to rounding."""
    toy = toy_policy()
    found = toy.mean_estimate(EVERY[name], size, together=True)
    np.testing.assert_allclose(found, toy.gradient_PD, atol=1e-13)


@pytest.mark.parametrize("estimator", BIASED, ids=lambda one: one.name)
def test_biased_as_declared(estimator):
    """The negative control of the test above, by a margin no rounding explains."""
    toy = toy_policy()
    found = toy.mean_estimate(estimator, 3, together=True)
    assert abs(found - toy.gradient_PD).max() > 0.004


@pytest.mark.parametrize("name", list(EVERY))
@FEW
@given(data=st.data())
def test_weights_of_any_batch(name, data):
    """Finite, in the shape of the rewards, which they leave; a permuted group's permuted.

    Of equal rewards they are zero exactly, not 1e-17; warnings, as of 0/0, are errors in
    this suite. Group-local ones survive any change elsewhere.
    """
    groups = data.draw(batches(binary=name in BINARY))
    rewards = groups.rewards_PRG.copy()
    weights = weights_of(name, groups)
    np.testing.assert_array_equal(groups.rewards_PRG, rewards)
    assert weights.shape == rewards.shape
    assert np.isfinite(weights).all()
    if name in SUMS_TO_ZERO:
        assert abs(weights.sum(-1)).max() < 1e-12 * scale_of(weights)
    order = np.array(data.draw(st.permutations(range(rewards.shape[-1]))))
    arrays = (rewards, groups.lengths_PRG, groups.norms2_PRG)
    moved = [one[..., order] for one in (*arrays, groups.logit_norms2_PRG)]
    permuted = make_groups(*moved[:3], 0.3, 0.6, moved[3])
    found, expected = weights_of(name, permuted), weights[..., order]
    np.testing.assert_allclose(found, expected, atol=1e-11 * scale_of(expected))
    if name in LOCAL:
        others = rewards.copy()
        others[1:] = 1 - others[1:]
        alone = weights_of(name, with_rewards(groups, others))[0]
        np.testing.assert_array_equal(alone, weights[0])
    if name not in KEEPS_EQUAL_GROUPS:
        rewards[0] = rewards[0, :, :1]
        assert not weights_of(name, with_rewards(groups, rewards))[0].any()


@pytest.mark.parametrize("name", SHIFTS)
@FEW
@given(data=st.data(), shift=st.sampled_from([-3.0, -0.5, 0.25, 2.0]))
def test_shifted_rewards_keep_their_weights(name, data, shift):
    """Eighths, so that neither a shift nor an order statistic meets with rounding."""
    groups = data.draw(batches())
    rewards = np.round(groups.rewards_PRG * 8) / 8
    found = weights_of(name, with_rewards(groups, rewards + shift))
    expected = weights_of(name, with_rewards(groups, rewards))
    np.testing.assert_allclose(found, expected, atol=1e-9 * scale_of(expected))


def own_baseline_moves(name, groups):
    """How far Z_i - w_i moves when Z_i alone is moved by 5."""
    weights, moves = weights_of(name, groups), []
    for i in range(weights.shape[-1]):
        moved = groups.rewards_PRG.copy()
        moved[0, :, i] += 5
        found = weights_of(name, with_rewards(groups, moved))
        moves.append(abs(found[0, :, i] - weights[0, :, i] - 5).max())
    return max(moves)


@pytest.mark.parametrize("name", OWN_REWARD_STAYS_OUT)
@FEW
@given(data=st.data())
def test_own_reward_stays_out_of_the_baseline(name, data):
    assert own_baseline_moves(name, data.draw(batches())) < 1e-12


@pytest.mark.parametrize("name", ["centred", "opo", "reinforce++", "quantile"])
def test_own_reward_enters_the_baseline_of_the_others(name):
    """The negative control of the test above."""
    groups = make_groups(np.array([[[1.0, 0, 0, 0]], [[1.0, 1, 0, 0]]]), lengths=3)
    assert own_baseline_moves(name, groups) > 0.1


@pytest.mark.parametrize("name", [n for n in EVERY if n not in LOCAL])
def test_batch_estimators_do_look_at_other_prompts(name):
    """The negative control of the test above."""
    one = make_groups(np.array([[[1.0, 0, 0, 0]], [[1.0, 1, 0, 0]], [[1.0, 1, 1, 0]]]))
    two = make_groups(np.array([[[1.0, 0, 0, 0]], [[0.0, 0, 0, 0]], [[1.0, 0, 0, 0]]]))
    assert abs(weights_of(name, one)[0] - weights_of(name, two)[0]).max() > 1e-3


def test_reward_only_means_no_lengths_and_no_norms():
    """Declared reward-only exactly where lengths, norms and b* change nothing."""
    rng = np.random.default_rng(0)
    rewards = (rng.uniform(size=(3, 5, 4)) < 0.5).astype(float)
    one = make_groups(rewards, 2, 1.0, value=0.3, best_constant=0.1)
    two = make_groups(
        rewards,
        rng.integers(1, 9, rewards.shape),
        rng.uniform(1, 9, rewards.shape),
        value=0.3,
        best_constant=0.7,
        logit_norms2=rng.uniform(1, 9, rewards.shape),
    )
    for name in LOCAL:
        same = (weights_of(name, one) == weights_of(name, two)).all()
        assert same == EVERY[name].reward_only, name
