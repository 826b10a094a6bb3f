"""Scores and reference against the model's own forward pass and softmax.

`sequence_log_probs` is what scores are made of, so its truth is taken from elsewhere: the
logits of one sequence, divided by the temperature, and `log_softmax`, all of torch.
"""

import numpy as np
import pytest

from enumerated import plain_score
from models import random_policy
from mse_lab.scores.reference import weighted_gradient
from mse_lab.scores.score_block import score_block
from plain_scores import (
    PROMPT,
    TOLERANCE,
    joined,
    random_reference,
    relative_gap,
    some_completions,
)


def plain(policy, completions):
    """Give log pi and scores of completions, by their own tokens alone, (N,) and (N, D)."""
    rows = [
        plain_score(policy, PROMPT, tokens[:length].tolist())
        for tokens, length in zip(completions.tokens_NT, completions.lengths_N, strict=True)
    ]
    return tuple(np.array(each) for each in zip(*rows, strict=True))


@pytest.mark.parametrize("architecture", ["gpt2", "qwen2", "gemma2"])
def test_scores_are_gradients_of_the_plain_forward_pass(architecture):
    policy = random_policy(architecture)
    completions = some_completions(policy)
    log_probs, scores = plain(policy, completions)
    found = score_block(policy, PROMPT, completions, random_reference(policy))
    bound = TOLERANCE[architecture]
    assert relative_gap(found.gram_NN, scores @ scores.T) < bound
    assert relative_gap(found.log_probs_N, log_probs) < bound


def test_the_reference_is_a_sum_of_plain_scores():
    policy = random_policy("gpt2")
    completions, weights = some_completions(policy), np.linspace(-1, 2, 9)
    log_probs, scores = plain(policy, completions)
    gradient, found = weighted_gradient(policy, PROMPT, completions, weights)
    assert relative_gap(joined(gradient), weights @ scores) < 1e-6
    assert relative_gap(found, log_probs) < 1e-9
