"""The two-half reference: a weighted sum of scores, and an error that has no bias."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import random_policy
from mse_lab.scores import reference
from mse_lab.scores.reference import (
    in_passes,
    leave_one_out,
    measure_reference,
    weighted_gradient,
)
from mse_lab.scores.sketches import Whole
from plain_scores import PROMPT, autograd_scores, joined, some_completions


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
    np.testing.assert_allclose(joined(found), expected, atol=1e-5 * abs(expected).max())
    assert log_probs.shape == (7,)


def test_repeated_completions_of_all_lengths(monkeypatch):
    """Differentiated once, in several passes, with the sum of their weights."""
    monkeypatch.setattr(reference, "PASS_TOKENS", 1)
    policy = random_policy()
    completions = some_completions(policy)[np.array([2, 0, 1, 0, 8, 3, 4, 0, 7])]
    weights, sizes = np.linspace(-1, 2, 9), []
    honest = reference.completion_log_probs

    def counted(policy, prefix, part):
        sizes.append(len(part))
        return honest(policy, prefix, part)

    monkeypatch.setattr(reference, "completion_log_probs", counted)
    found, log_probs = weighted_gradient(policy, PROMPT, completions, weights, 2)
    assert sum(sizes) == 7
    assert len(sizes) > 4
    expected = weights @ autograd_scores(policy, completions)
    np.testing.assert_allclose(joined(found), expected, atol=1e-5 * abs(expected).max())
    np.testing.assert_allclose(log_probs, completions.log_probs_N, rtol=1e-6)


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=60), st.integers(1, 70))
def test_passes(lengths, most):
    """All completions, each once; never more padding than one pass would have had."""
    lengths_N = np.array(lengths)
    passes = in_passes(lengths_N, most)
    assert sorted(np.concatenate(passes)) == list(range(len(lengths)))
    assert max(map(len, passes)) <= most
    padded = sum(len(part) * lengths_N[part].max() for part in passes)
    assert padded <= len(lengths) * max(lengths)
    # Longest first, so that those of like length are together.
    assert (np.diff(lengths_N[np.concatenate(passes)]) <= 0).all()


def test_completions_of_like_length_are_one_pass():
    assert [part.tolist() for part in in_passes(np.full(5, 7), 9)] == [[0, 1, 2, 3, 4]]
    # 100 completions of 8 tokens beside one of 500: 49,200 tokens of padding are saved.
    lengths = np.append(np.full(100, 8), 500)
    assert [len(part) for part in in_passes(lengths, 101)] == [1, 100]


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

    def keep(gradient):
        whole = Whole(policy.parameters)
        for name, part in gradient.items():
            whole.add(name, [part])
        return whole.vector

    found = measure_reference(policy, PROMPT, completions, rewards, keep)
    mean = (half_a + half_b) / 2
    np.testing.assert_allclose(joined(found.mean), mean, atol=1e-5 * abs(mean).max())
    np.testing.assert_allclose(found.kept_mean, mean, atol=1e-5 * abs(mean).max())
    np.testing.assert_allclose(sum(found.products.values()), half_a @ half_b, rtol=1e-4)
    np.testing.assert_allclose(found.distance2, ((half_a - half_b) ** 2).sum(), rtol=1e-4)
    np.testing.assert_allclose(found.log_probs_N, completions.log_probs_N, rtol=1e-6)


def test_leave_one_out_weights():
    # Rewards 1, 0, 0: mean 1/3, so (2/3, -1/3, -1/3) / 2.
    np.testing.assert_allclose(
        leave_one_out(np.array([1.0, 0, 0])), [1 / 3, -1 / 6, -1 / 6]
    )
