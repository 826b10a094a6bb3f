"""The two-half reference: a weighted sum of scores, and an error that has no bias."""

import numpy as np
import pytest
import torch
from models import random_policy
from test_scores import PROMPT, autograd_scores, some_completions

from mse_lab import between
from mse_lab.reference import leave_one_out, measure_reference, weighted_gradient


def join(gradient, policy):
    return (
        torch.cat([gradient[name].flatten() for name in policy.parameters]).double().numpy()
    )


@pytest.mark.parametrize("architecture", ["gpt2", "qwen2", "llama", "gemma2"])
@pytest.mark.parametrize("prompt_length", [1, 2, 8])
def test_weighted_gradient_is_the_weighted_sum_of_scores(architecture, prompt_length):
    """Also for a prompt of one token, which has no prefix to share."""
    policy = random_policy(architecture)
    completions = some_completions(policy, 7)
    weights = np.linspace(-1, 2, 7)
    prompt = PROMPT[:prompt_length]
    found, log_probs = weighted_gradient(policy, prompt, completions, weights)
    expected = weights @ autograd_scores(policy, completions, prompt)
    np.testing.assert_allclose(
        join(found, policy), expected, atol=1e-5 * abs(expected).max()
    )
    assert log_probs.shape == (7,)


def test_parameters_are_left_without_gradients():
    policy = random_policy()
    weighted_gradient(policy, PROMPT, some_completions(policy, 3), np.ones(3))
    assert not any(p.requires_grad or p.grad is not None for p in policy.model.parameters())


def test_halves():
    policy = random_policy()
    completions = some_completions(policy, 8)
    rewards = np.array([1.0, 0, 0, 1, 0, 1, 1, 1])
    scores_ND = autograd_scores(policy, completions)
    half_a = leave_one_out(rewards[:4]) @ scores_ND[:4]
    half_b = leave_one_out(rewards[4:]) @ scores_ND[4:]
    found = measure_reference(policy, PROMPT, completions, rewards, between.flatten)
    mean = (half_a + half_b) / 2
    np.testing.assert_allclose(join(found.mean, policy), mean, atol=1e-5 * abs(mean).max())
    np.testing.assert_allclose(sum(found.products.values()), half_a @ half_b, rtol=1e-4)
    np.testing.assert_allclose(found.distance2, ((half_a - half_b) ** 2).sum(), rtol=1e-4)
    np.testing.assert_allclose(found.log_probs_N, completions.log_probs_N, rtol=1e-6)


def test_leave_one_out_weights():
    # Rewards 1, 0, 0: mean 1/3, so (2/3, -1/3, -1/3) / 2.
    np.testing.assert_allclose(
        leave_one_out(np.array([1.0, 0, 0])), [1 / 3, -1 / 6, -1 / 6]
    )
