"""Other objectives: hand values, known slopes, public formulas."""

from dataclasses import replace
from functools import partial
from math import comb, sqrt

import numpy as np
import pytest
from toy import make_groups, toy_policy

from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.estimators.objectives import (
    grpo_loo_std,
    grpo_std,
    maxrl,
    median,
    normalise_length,
    pass_at_k,
    quantile,
)

GROUP = [1, 0, 0, 0]


def slope(weights, size, value):
    """Exact slope for rewards in {0, 1}: <E g_hat, g> / ||g||^2, c right ~ Binomial."""
    total = 0.0
    for right in range(size + 1):
        probability = comb(size, right) * value**right * (1 - value) ** (size - right)
        rewards = np.array([1.0] * right + [0.0] * (size - right))
        found = weights(make_groups(rewards))[0, 0]
        total += probability * found @ (rewards / value - (1 - rewards) / (1 - value))
    return total / size


@pytest.mark.parametrize(
    ("weights", "rewards", "expected"),
    [
        # Zbar = 1/4, s^2 = (9 + 3) / 16 / 3 = 1/4: 3/4 / (1/2) and -1/4 / (1/2).
        (grpo_std, GROUP, [1.5, -0.5, -0.5, -0.5]),
        # s^2 = (9 + 3) / 16 / 4 = 3/16: 3/4 / (sqrt 3 / 4) = sqrt 3.
        (partial(grpo_std, ddof=0), GROUP, np.array([3, -1, -1, -1]) / sqrt(3)),
        # grpo's 1, -1/3, -1/3, -1/3 by s = 1/2.
        (grpo_loo_std, GROUP, [2, -2 / 3, -2 / 3, -2 / 3]),
        # med = 0, MAD = 0; three stand at the median, one is not counted: 4/3 * 1 / 1e-3.
        (median, GROUP, [4000 / 3, 0, 0, 0]),
        # med = 2, distances 2, 1, 0, 1, 5, MAD = 1: 5/4 * distance / (1 + 1).
        (partial(median, eps=1.0), [0, 1, 2, 3, 7], [-1.25, -0.625, 0, 0.625, 3.125]),
        # med = 1/2, every distance 1/2 and none at it, MAD = 1/2: no factor 4/3.
        (partial(median, eps=0.5), [1, 1, 0, 0], [0.5, 0.5, -0.5, -0.5]),
        # F(0) = 3/4 >= 0.4, so b = 0; s = 1/2.
        (quantile, GROUP, [2, 0, 0, 0]),
        # Three right of four: F(0) = 1/4 < 0.4, so b = 1; s = 1/2.
        (quantile, [1, 1, 1, 0], [0, 0, 0, -2]),
        # Zbar = 1/4: 3/4 / (1/4) and -1/4 / (1/4).
        (maxrl, GROUP, [3, -1, -1, -1]),
        # k C(3, k-1) / C(3, k-1) = k with one right of four.
        (partial(pass_at_k, k=2), GROUP, [2, 0, 0, 0]),
        (partial(pass_at_k, k=4), GROUP, [4, 0, 0, 0]),
        # Two right: k = 2 gives 2 C(2, 1) / C(3, 1) = 4/3, k = 4 gives 4 C(2, 3) / 1 = 0.
        (partial(pass_at_k, k=2), [1, 0, 1, 0], [4 / 3, 0, 4 / 3, 0]),
        (partial(pass_at_k, k=4), [1, 0, 1, 0], [0, 0, 0, 0]),
        # k = 1 is vanilla.
        (partial(pass_at_k, k=1), [1, 0, 1, 1], [1, 0, 1, 1]),
    ],
)
def test_by_hand(weights, rewards, expected):
    np.testing.assert_allclose(weights(make_groups(rewards)), [[expected]], rtol=1e-14)


@pytest.mark.parametrize("size", [5, 8, 20, 25])
@pytest.mark.parametrize("level", [0.2, 0.28, 0.4, 0.6])
def test_quantile_baseline_is_zero_up_to_one_minus_level(size, level):
    """Counted in whole percents, which no rounding touches."""
    for right in range(1, size):
        found = quantile(make_groups([1] * right + [0] * (size - right)), level=level)[0, 0]
        rewards_the_right = 100 * right <= (100 - round(100 * level)) * size
        assert (found[0] > 0) == rewards_the_right
        assert (found[-1] < 0) == (not rewards_the_right)


@pytest.mark.parametrize("value", [0.1, 0.5, 0.8])
@pytest.mark.parametrize(
    ("size", "ddof", "expected"),
    [(2, 0, 1.0), (3, 0, sqrt(2)), (2, 1, sqrt(1 / 2)), (3, 1, sqrt(4 / 3))],
)
def test_slope_of_small_groups(size, ddof, expected, value):
    """G = 2: w = +-1 whenever they differ. G = 3: sqrt 2 and 1 / sqrt 2. Any V."""
    found = slope(partial(grpo_std, ddof=ddof), size, value)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("value", [0.2, 0.5])
@pytest.mark.parametrize("size", [2, 5, 16])
def test_slope_of_grpo_std_as_documented(size, value):
    roots = sum(
        comb(size, c) * value**c * (1 - value) ** (size - c) * sqrt(c * (size - c))
        for c in range(size + 1)
    )
    expected = sqrt((size - 1) / size**3) * roots / (value * (1 - value))
    assert slope(grpo_std, size, value) == pytest.approx(expected, rel=1e-12)
    loo = slope(grpo_loo_std, size, value)
    assert loo == pytest.approx(expected * size / (size - 1), rel=1e-12)


def test_slope_of_grpo_std_tends_to_the_arcsine():
    """d/dV 2 arcsin sqrt V = 1 / sqrt(V (1-V)); the gap shrinks like 1/G."""
    limit = 1 / sqrt(0.3 * 0.7)
    gaps = [abs(slope(grpo_std, size, 0.3) - limit) for size in (50, 100, 200)]
    assert gaps[2] < 0.01 * limit
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.05)
    assert gaps[1] / gaps[2] == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("size", [3, 5, 9])
def test_slope_of_median_in_odd_groups_as_documented(size):
    value, total = 0.3, 0.0
    for c in range(size + 1):
        probability = comb(size, c) * value**c * (1 - value) ** (size - c)
        total += probability * (c / value if 2 * c < size else (size - c) / (1 - value))
    expected = total / (1e-3 * (size - 1))
    assert slope(median, size, value) == pytest.approx(expected, rel=1e-12)


def test_group_scaling_of_trl():
    """TRL's default: (r - mean) / (std + 1e-4), sample std; ours differ by no group."""
    rewards = np.random.default_rng(3).integers(0, 2, size=(40, 1, 8)).astype(float)
    mean, std = rewards.mean(-1, keepdims=True), rewards.std(-1, ddof=1, keepdims=True)
    found = grpo_std(make_groups(rewards), eps=1e-4)
    np.testing.assert_allclose(found, (rewards - mean) / (std + 1e-4), atol=1e-12)


def numeric_gradient(toy, objective, step=1e-5):
    """Central differences of objective(V) by every logit, (P, D)."""
    gradient = np.empty(toy.logits_PC.shape)
    for prompt, logit in np.ndindex(*gradient.shape):
        values = []
        for sign in (1, -1):
            moved = toy.logits_PC.copy()
            moved[prompt, logit] += sign * step
            values.append(objective(replace(toy, logits_PC=moved).value_P[prompt]))
        gradient[prompt, logit] = (values[0] - values[1]) / (2 * step)
    return gradient


@pytest.mark.parametrize(("size", "k"), [(2, 2), (3, 2), (3, 3), (4, 2), (4, 3), (4, 4)])
def test_pass_at_k_is_unbiased_for_pass_at_k(size, k):
    """Differences of step 1e-5 are exact to 1e-9 here, the enumeration to 1e-15."""
    toy = toy_policy(prompts=2)
    found = toy.mean_estimate(find_estimator({"name": "pass-at-k", "k": k}), size)
    expected = numeric_gradient(toy, lambda value: 1 - (1 - value) ** k)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert abs(found - toy.gradient_PD).max() > 0.01


@pytest.mark.parametrize("size", [2, 3, 4])
def test_maxrl_is_unbiased_for_the_truncated_log_likelihood(size):
    """Order G - 1, and not G: the second assertion would fail if it were."""
    toy = toy_policy(prompts=2)
    found = toy.mean_estimate(find_estimator("maxrl"), size)

    def truncated(value, order):
        return -sum((1 - value) ** k / k for k in range(1, order + 1))

    expected = numeric_gradient(toy, lambda value: truncated(value, size - 1))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    one_more = numeric_gradient(toy, lambda value: truncated(value, size))
    assert abs(found - one_more).max() > 0.01


@pytest.mark.parametrize("weights", [maxrl, pass_at_k])
def test_rewards_between_are_refused(weights):
    name = weights.__name__.replace("_", "-")
    with pytest.raises(InputError, match=f"{name} needs rewards of 0 or 1, not 0.5"):
        weights(make_groups([1, 0.5, 0, 0]))


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
def test_lengths_by_hand(length, expected):
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
