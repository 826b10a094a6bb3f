"""The two-half reference: a weighted sum of scores, in passes with little padding."""

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
from plain_scores import (
    PROMPT,
    autograd_scores,
    joined,
    plain_scores,
    relative_gap,
    some_completions,
)


@pytest.mark.parametrize("prompt_length", [1, 2, 8])
@pytest.mark.parametrize("architecture", ["gpt2", "qwen2"])
def test_repeated_completions_of_all_lengths(monkeypatch, architecture, prompt_length):
    """Differentiated once, in several passes, with the sum of their weights.

    Also for a prompt of one token, which has no prefix to share.
    """
    monkeypatch.setattr(reference, "PASS_TOKENS", 1)
    policy, prompt = random_policy(architecture), PROMPT[:prompt_length]
    completions = some_completions(policy)[np.array([2, 0, 1, 0, 8, 3, 4, 0, 7])]
    weights, sizes = np.linspace(-1, 2, 9), []
    honest = reference.completion_log_probs

    def counted(policy, prefix, part):
        sizes.append(len(part))
        return honest(policy, prefix, part)

    monkeypatch.setattr(reference, "completion_log_probs", counted)
    found, found_N = weighted_gradient(policy, prompt, completions, weights, 2)
    assert sum(sizes) == 7
    assert max(sizes) <= 2
    scores_ND, log_probs_N, _ = plain_scores(policy, completions, prompt)
    assert relative_gap(joined(found), weights @ scores_ND) < 1e-5
    assert relative_gap(found_N, log_probs_N) < 1e-6
    assert not any(p.requires_grad or p.grad is not None for p in policy.model.parameters())


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


def test_halves():
    """Of rewards 1, 0, 0, 1 the weights are (1/2, -1/2, -1/2, 1/2) / 3."""
    policy = random_policy()
    completions = some_completions(policy, 8)
    rewards = np.array([1.0, 0, 0, 1, 0, 1, 1, 1])
    np.testing.assert_allclose(leave_one_out(rewards[:4]), [1 / 6, -1 / 6, -1 / 6, 1 / 6])
    scores_ND = autograd_scores(policy, completions)
    half_a, half_b = (
        leave_one_out(rewards[half]) @ scores_ND[half] for half in (slice(4), slice(4, 8))
    )
    found = measure_reference(policy, PROMPT, completions, rewards, joined)
    assert relative_gap(joined(found.mean), (half_a + half_b) / 2) < 1e-5
    assert relative_gap(found.kept_mean, (half_a + half_b) / 2) < 1e-5
    assert relative_gap(found.kept_difference, half_a - half_b) < 1e-5
    np.testing.assert_allclose(sum(found.products.values()), half_a @ half_b, rtol=1e-4)
    np.testing.assert_allclose(found.distance2, ((half_a - half_b) ** 2).sum(), rtol=1e-4)
    np.testing.assert_allclose(found.log_probs_N, completions.log_probs_N, rtol=1e-6)
