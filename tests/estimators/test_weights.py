"""Weights: hand values of every estimator, and slow loops."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats
from toy import make_batch, make_groups

from every_estimator import EVERY
from mse_lab.errors import InputError
from mse_lab.estimators import ESTIMATORS, find_estimator
from mse_lab.estimators.objectives import quantile

GROUP = [1, 0, 0, 0]
BATCH = (GROUP, [1, 1, 0, 0])


def named(name, **parameters):
    return {"name": name, **parameters}


def weights_of(entry, groups):
    return find_estimator(entry).weights(groups)


# An estimator, the rewards of one group or of a batch, and the weights by hand. Lengths and
# norms are 1, 2, 3, 4; V is 1/4 and b* 1/2.
HAND = [
    ("vanilla", GROUP, [1, 0, 0, 0]),
    ("oracle", GROUP, [3 / 4, -1 / 4, -1 / 4, -1 / 4]),
    ("best-constant", GROUP, [1 / 2, -1 / 2, -1 / 2, -1 / 2]),
    # The others' means: 0 for the right one, 1/3 for each wrong one.
    ("grpo", GROUP, [1, -1 / 3, -1 / 3, -1 / 3]),
    ("centred", GROUP, [3 / 4, -1 / 4, -1 / 4, -1 / 4]),
    # Without the first, no reward; without i, 1 of the remaining 10 - i.
    (named("norm-weighted"), GROUP, [1, -1 / 8, -1 / 7, -1 / 6]),
    ("best-constant-loo", GROUP, [1, -1 / 8, -1 / 7, -1 / 6]),
    # The logits' norms are 4, 3, 2, 1: of 10 - s_i the first has 4.
    (named("norm-weighted", weight="logits"), GROUP, [1, -4 / 7, -4 / 8, -4 / 9]),
    # The batch's others: s of all is 20, of all right ones 1, and 1 + 2.
    (
        named("norm-weighted", over="batch"),
        BATCH,
        [
            [1 - 3 / 19, -4 / 18, -4 / 17, -4 / 16],
            [1 - 3 / 19, 1 - 2 / 18, -4 / 17, -4 / 16],
        ],
    ),
    # The others' means: 0 for the right one, 1/3 for each wrong one.
    ({"name": "affine", "alpha": 0.5, "lambda": 0.25}, GROUP, [1 / 2, *3 * [-7 / 12]]),
    # No part of the others' mean: the reward less alpha.
    ({"name": "affine", "alpha": 0.5, "lambda": 0}, GROUP, [1 / 2, *3 * [-1 / 2]]),
    (named("constant", alpha=0.25), GROUP, [3 / 4, -1 / 4, -1 / 4, -1 / 4]),
    ("opo-loo", GROUP, [1, -1 / 8, -1 / 7, -1 / 6]),
    # b = 1 * 1 / (1 + 2 + 3 + 4).
    ("opo", GROUP, [9 / 10, -1 / 10, -1 / 10, -1 / 10]),
    # Zbar = 1/4, s^2 = (9 + 3) / 16 / 3 = 1/4: 3/4 / (1/2) and -1/4 / (1/2).
    ("grpo-std", GROUP, [1.5, -0.5, -0.5, -0.5]),
    # s^2 = (9 + 3) / 16 / 4 = 3/16: 3/4 / (sqrt 3 / 4) = sqrt 3.
    (named("grpo-std", ddof=0), GROUP, np.array([3, -1, -1, -1]) / sqrt(3)),
    # grpo's 1, -1/3, -1/3, -1/3 by s = 1/2.
    ("grpo-loo-std", GROUP, [2, -2 / 3, -2 / 3, -2 / 3]),
    # med = 0, MAD = 0; three stand at the median, one is not counted: 4/3 * 1 / 1e-3.
    ("median", GROUP, [4000 / 3, 0, 0, 0]),
    # med = 2, distances 2, 1, 0, 1, 5, MAD = 1: 5/4 * distance / (1 + 1).
    (named("median", eps=1), [0, 1, 2, 3, 7], [-1.25, -0.625, 0, 0.625, 3.125]),
    # med = 1/2, every distance 1/2 and none at it, MAD = 1/2: no factor 4/3.
    (named("median", eps=0.5), [1, 1, 0, 0], [0.5, 0.5, -0.5, -0.5]),
    # F(0) = 3/4 >= 0.4, so b = 0; s = 1/2.
    ("quantile", GROUP, [2, 0, 0, 0]),
    # Three right of four: F(0) = 1/4 < 0.4, so b = 1; s = 1/2.
    ("quantile", [1, 1, 1, 0], [0, 0, 0, -2]),
    # Zbar = 1/4: 3/4 / (1/4) and -1/4 / (1/4).
    ("maxrl", GROUP, [3, -1, -1, -1]),
    # k C(3, k-1) / C(3, k-1) = k with one right of four.
    (named("pass-at-k", k=2), GROUP, [2, 0, 0, 0]),
    (named("pass-at-k", k=4), GROUP, [4, 0, 0, 0]),
    # Two right: k = 2 gives 2 C(2, 1) / C(3, 1) = 4/3, k = 4 gives 4 C(2, 3) / 1 = 0.
    (named("pass-at-k", k=2), [1, 0, 1, 0], [4 / 3, 0, 4 / 3, 0]),
    (named("pass-at-k", k=4), [1, 0, 1, 0], [0, 0, 0, 0]),
    # k = 1 is vanilla.
    (named("pass-at-k", k=1), [1, 0, 1, 1], [1, 0, 1, 1]),
    # The other prompt's mean: 1/2 for the first, 1/4 for the second.
    ("global-mean", BATCH, np.array([[2, -2, -2, -2], [3, 3, -1, -1]]) / 4),
    # m = 3/8, s^2 = (3 * 25 + 5 * 9) / 64 / 7 = 15/56.
    (
        "reinforce++",
        BATCH,
        np.array([[5, -3, -3, -3], [5, 5, -3, -3]]) / 8 / sqrt(15 / 56),
    ),
    # One completion alone has no spread.
    ("reinforce++", [1], [0]),
    # The groups' own means, 1/4 and 1/2, by the same s.
    ("batch-std", BATCH, np.array([[3, -1, -1, -1], [2, 2, -2, -2]]) / 4 / sqrt(15 / 56)),
    # One other prompt: s = 0, v > 0, so lam = 1/2 * 1: half grpo, half global-mean.
    # First: 1/2 (1, -1/3, -1/3, -1/3) + 1/2 (1/2, -1/2, -1/2, -1/2).
    # Second: 1/2 (2/3, 2/3, -2/3, -2/3) + 1/2 (3/4, 3/4, -1/4, -1/4).
    ("shrinkage", BATCH, np.array([[18, -10, -10, -10], [17, 17, -11, -11]]) / 24),
    # Of the other two groups s is 1/64, 1/16, 1/64 and v 7/96, 1/16, 7/96, so that lam is
    # 2/3 v / (v + s) = 28/51, 1/3, 28/51.
    (
        "shrinkage",
        (*BATCH, [1, 1, 1, 0]),
        [
            [67 / 102, *3 * [-151 / 306]],
            [11 / 18, 11 / 18, -11 / 18, -11 / 18],
            [*3 * [151 / 306], -67 / 102],
        ],
    ),
    # Means 1/4, 1/2: m = 3/8, v = 1/32, concentration 15/64 * 32 - 1 = 13/2,
    # a = 39/16, b = 65/16, so the law is Beta(29/16, 113/48).
    (
        "bnpo",
        BATCH,
        np.array([[3, -1, -1, -1], [2, 2, -2, -2]])
        / 4
        / stats.beta(29 / 16, 113 / 48).pdf([1 / 4, 1 / 2])[:, None],
    ),
    # Means 0, 1/4, 1: m = 5/12, v = 13/48, concentration 35/144 * 48/13 - 1 = -4/39, so
    # a and b are below 0, the law is Beta(1, 1) and its density 1.
    (
        "bnpo",
        ([0, 0, 0, 0], GROUP, [1, 1, 1, 1]),
        [[0, 0, 0, 0], [0.75, -0.25, -0.25, -0.25], [0, 0, 0, 0]],
    ),
    # Equal means: a point, whose density is infinite.
    ("bnpo", ([1, 0, 0], [0, 1, 0], [0, 0, 1]), np.zeros((3, 3))),
]


@pytest.mark.parametrize(("entry", "rewards", "expected"), HAND, ids=str)
def test_by_hand(entry, rewards, expected):
    rewards = np.atleast_2d(rewards)[:, None]
    size = rewards.shape[-1]
    counts = np.arange(1, size + 1)
    groups = make_groups(rewards, counts, counts, 0.25, 0.5, counts[::-1])
    found = weights_of(entry, groups)
    np.testing.assert_allclose(found[:, 0], np.atleast_2d(expected), rtol=1e-12)


def test_every_estimator_has_a_value_by_hand():
    assert {find_estimator(entry).name.partition("(")[0] for entry, *_ in HAND} == {
        *ESTIMATORS
    }


@pytest.mark.parametrize("own", [1.0, 1e30])
def test_scores_of_zero_take_the_plain_mean_of_the_others(own):
    """Completion 1 has others without a score: their mean is 1/2; others have it alone."""
    found = weights_of("best-constant-loo", make_groups([0, 1, 0], norms2=[own, 0, 0]))
    assert found.tolist() == [[[-0.5, 1, 0]]]


@pytest.mark.parametrize("size", [5, 8, 20, 25])
@pytest.mark.parametrize("level", [0.2, 0.28, 0.4, 0.6])
def test_quantile_baseline_is_zero_up_to_one_minus_level(size, level):
    """Counted in whole percents, which no rounding touches."""
    for right in range(1, size):
        found = quantile(make_groups([1] * right + [0] * (size - right)), level=level)[0, 0]
        rewards_the_right = 100 * right <= (100 - round(100 * level)) * size
        assert (found[0] > 0) == rewards_the_right
        assert (found[-1] < 0) == (not rewards_the_right)


WEIGHTS = np.array([[[1.0, -1.0]], [[2.0, 0.0]]])
LENGTHS = np.array([[[1, 3]], [[2, 10]]])
BY_LENGTH = {
    "none": [[1, -1], [2, 0]],
    "sequence": [[1, -1 / 3], [1, 0]],
    # G / sum_j l_j: 2/4 and 2/12.
    "token": [[1 / 2, -1 / 2], [1 / 3, 0]],
    # P G / sum l: 4/16 for all, as in DAPO's mean over all tokens.
    "token-batch": [[1 / 4, -1 / 4], [1 / 2, 0]],
}


@pytest.mark.parametrize("length", BY_LENGTH)
def test_the_length_dial_by_hand(length):
    """Of vanilla, with a replicate beside it whose completions are five times as long."""
    turned = find_estimator(named("vanilla", length=length))
    both = np.concatenate([LENGTHS, 5 * LENGTHS], axis=1)
    found = turned.weights(make_groups(np.repeat(WEIGHTS, 2, axis=1), both))
    expected = np.array(BY_LENGTH[length], dtype=float)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-14)
    longer = expected if length == "none" else expected / 5
    np.testing.assert_allclose(found[:, 1], longer, rtol=1e-14)
    assert turned.name == f"vanilla(length={length})"
    assert turned.unbiased == turned.reward_only == (length == "none")
    assert turned.group_local == (length != "token-batch")
    two = find_estimator(named("grpo-std", eps=0.5, length=length))
    assert two.name == f"grpo-std(eps=0.5, length={length})"


def test_bnpo_caps_the_reciprocal():
    """Mean 1/300 once and 1/2 elsewhere: alpha is about 51, the density below 1e-100."""
    rewards = np.zeros((300, 1, 300))
    rewards[:, 0, :150] = 1
    rewards[0, 0, 1:] = 0
    found = weights_of("bnpo", make_groups(rewards))
    # 1e6 times 1 - 1/300.
    assert found[0, 0, 0] == pytest.approx(1e6 * 299 / 300, rel=1e-9)
    assert abs(found[1:]).max() < 1


def test_shrinkage_is_grpo_where_the_others_have_no_noise():
    """Equal rewards inside each other group: v = 0 exactly, though 0.1 does round."""
    batch = make_batch([1, 0, 0.5], [0.1, 0.1, 0.1], [0.1, 0.1, 0.1])
    found, plain = (weights_of(name, batch)[0] for name in ("shrinkage", "grpo"))
    np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("name", [n for n, e in EVERY.items() if not e.group_local])
def test_replicates_are_batches_of_their_own(name):
    """Any one replicate alone gives the weights it has among the others."""
    rng, weights = np.random.default_rng(6), EVERY[name].weights
    chance = rng.uniform(0.1, 0.9, size=(7, 1, 1))
    rewards = (rng.uniform(size=(7, 30, 4)) < chance).astype(float)
    together = weights(make_groups(rewards))
    for replicate in range(3):
        alone = weights(make_groups(rewards[:, [replicate]]))
        np.testing.assert_allclose(alone[:, 0], together[:, replicate], atol=1e-13)


@pytest.mark.parametrize("name", [n for n, e in ESTIMATORS.items() if e.binary])
def test_rewards_between_are_refused(name):
    with pytest.raises(InputError, match=f"{name} needs rewards of 0 or 1, not 0.5"):
        ESTIMATORS[name].weights(make_batch([1, 0.5, 0, 0], GROUP))
