"""Other objectives: hand values, and unbiased for what they say, by enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from toy import make_groups, toy_policy

from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.estimators.constant import vanilla
from mse_lab.estimators.objectives import maxrl, pass_at_k

GROUP = make_groups([1, 0, 0, 0])


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


def test_maxrl_by_hand():
    # Zbar = 1/4: 3/4 / (1/4) and -1/4 / (1/4).
    np.testing.assert_allclose(maxrl(GROUP), [[[3, -1, -1, -1]]], rtol=1e-14)


def test_pass_at_k_by_hand():
    # k C(3, k-1) / C(3, k-1) = k with one right of four.
    assert pass_at_k(GROUP, k=2).tolist() == [[[2, 0, 0, 0]]]
    assert pass_at_k(GROUP, k=4).tolist() == [[[4, 0, 0, 0]]]
    # Two right: k = 2 gives 2 C(2, 1) / C(3, 1) = 4/3, k = 4 gives 4 C(2, 3) / 1 = 0.
    two = make_groups([1, 0, 1, 0])
    np.testing.assert_allclose(pass_at_k(two, k=2), [[[4 / 3, 0, 4 / 3, 0]]], rtol=1e-14)
    assert not pass_at_k(two, k=4).any()


def test_pass_at_one_is_vanilla():
    group = make_groups([[[1, 1, 1], [1, 0, 1], [0, 0, 0]]])
    assert (pass_at_k(group, k=1) == vanilla(group)).all()


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
