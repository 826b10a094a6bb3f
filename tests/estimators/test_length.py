"""The length dial: hand values, and the public loss it stands for."""

import numpy as np
import pytest
from toy import make_groups

from mse_lab.estimators import find_estimator
from mse_lab.estimators.length import normalise_length

WEIGHTS = np.array([[[1.0, -1.0]], [[2.0, 0.0]]])
LENGTHS = np.array([[[1, 3]], [[2, 10]]])


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        ("none", [[[1, -1]], [[2, 0]]]),
        ("sequence", [[[1, -1 / 3]], [[1, 0]]]),
        # G / sum_j l_j: 2/4 and 2/12.
        ("token", [[[1 / 2, -1 / 2]], [[1 / 3, 0]]]),
        # P G / sum l: 4/16 for all.
        ("token-batch", [[[1 / 4, -1 / 4]], [[1 / 2, 0]]]),
    ],
)
def test_by_hand(length, expected):
    found = normalise_length(WEIGHTS, LENGTHS, length)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_token_batch_is_a_mean_over_all_tokens():
    """Advantage on every token, summed, by the number of tokens: DAPO's loss.

    With a number for the score of each token, (1/P) sum_x (1/G) sum_i w_i W_i must be the
    mean over tokens of advantage times the token's number.
    """
    rng = np.random.default_rng(0)
    tokens = [[rng.normal(size=l) for l in row[0]] for row in LENGTHS]  # noqa: E741
    scores = np.array([[[one.sum() for one in row]] for row in tokens])
    flat = [
        WEIGHTS[x, 0, i] * number
        for x in range(2)
        for i in range(2)
        for number in tokens[x][i]
    ]
    weights = normalise_length(WEIGHTS, LENGTHS, "token-batch")
    assert (weights * scores).mean() == pytest.approx(np.mean(flat), rel=1e-12)


@pytest.mark.parametrize("length", ["sequence", "token", "token-batch"])
def test_replicates_are_batches_of_their_own(length):
    both = np.concatenate([LENGTHS, 5 * LENGTHS], axis=1)
    found = normalise_length(np.repeat(WEIGHTS, 2, axis=1), both, length)
    alone = normalise_length(WEIGHTS, LENGTHS, length)
    np.testing.assert_allclose(found[:, :1], alone, rtol=1e-14)
    np.testing.assert_allclose(found[:, 1:], alone / 5, rtol=1e-14)


@pytest.mark.parametrize("length", ["none", "sequence", "token", "token-batch"])
def test_the_dial_goes_with_any_estimator(length):
    group = make_groups([1, 0, 0, 0], lengths=[1, 2, 3, 4])
    plain = find_estimator({"name": "grpo-std", "eps": 0.5})
    turned = find_estimator({"name": "grpo-std", "eps": 0.5, "length": length})
    expected = normalise_length(plain.weights(group), group.lengths_PRG, length)
    np.testing.assert_array_equal(turned.weights(group), expected)
    assert turned.name == f"grpo-std(eps=0.5, length={length})"


@pytest.mark.parametrize("length", ["sequence", "token", "token-batch"])
def test_normalised_lengths_change_the_target(length):
    turned = find_estimator({"name": "grpo", "length": length})
    assert not turned.unbiased
    assert not turned.reward_only
    assert turned.group_local == (length != "token-batch")
    assert find_estimator({"name": "grpo", "length": "none"}).unbiased
