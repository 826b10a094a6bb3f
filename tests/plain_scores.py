"""Scores by plain autograd, one completion at a time: the truth for the factored ones."""

import dataclasses

import numpy as np
import torch

from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.scores.score_block import score_block

PROMPT = [3, 4, 5, 6, 7, 3, 3, 9]


# GPT-2 computes in the model's precision; the others compute norms and softmax in float32
# whatever the model's precision.
TOLERANCE = {"gpt2": 1e-10, "qwen2": 1e-5, "llama": 1e-5, "qwen3": 1e-5, "gemma2": 1e-5}


def normal(generator, *shape):
    """Draw normal numbers in float64."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def some_completions(policy, count=9):
    """Take tokens at random: peaked policies draw the same completions again and again."""
    vocabulary = len(policy.model.get_input_embeddings().weight)
    tokens_NT = np.random.default_rng(0).integers(vocabulary, size=(8 * count, 6))
    ends_NT = np.isin(tokens_NT, policy.end_tokens)
    lengths_N = np.where(ends_NT.any(1), ends_NT.argmax(1) + 1, 6)
    some = Completions(tokens_NT, lengths_N, np.zeros(8 * count), ends_NT.any(1))
    some = some.distinct()[0][:count]
    with torch.no_grad():
        log_probs = sequence_log_probs(policy, PROMPT, some)
    return dataclasses.replace(some, log_probs_N=log_probs.double().numpy())


def autograd_scores(policy, completions, prompt=PROMPT):
    """Score each completion alone, by autograd; zero where it does not lead, (N, D)."""
    rows = []
    for index in range(len(completions)):
        with torch.enable_grad(), policy.differentiable():
            one = completions[index : index + 1]
            sequence_log_probs(policy, prompt, one).sum().backward()
            parts = policy.parameters.values()
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parts]
            rows.append(torch.cat([grad.flatten() for grad in grads]))
    return torch.stack(rows).double().numpy()


def random_reference(policy):
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.randn(p.shape, generator=generator, dtype=p.dtype)
        for name, p in policy.parameters.items()
    }


def joined(reference):
    return torch.cat([part.flatten() for part in reference.values()]).double().numpy()


def relative_gap(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


def assert_scores(policy, completions, bound, how=None, scores_ND=None):
    """Hold a block's inner products to those of scores by autograd; give both."""
    expected = autograd_scores(policy, completions) if scores_ND is None else scores_ND
    reference = random_reference(policy)
    found = score_block(policy, PROMPT, completions, reference, how=how)
    assert set(found.norms2) == set(policy.parameters)
    assert relative_gap(found.gram_NN, expected @ expected.T) < bound
    assert relative_gap(found.products_N, expected @ joined(reference)) < bound
    assert relative_gap(sum(found.norms2.values()), (expected**2).sum(1)) < bound
    return found, expected
