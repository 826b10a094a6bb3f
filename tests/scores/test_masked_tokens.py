"""Completions with tokens of a tool between the policy's own: context, not actions."""

import numpy as np
import pytest
import torch

from models import random_policy
from mse_lab.policy.completions import Completions
from mse_lab.scores.reference import weighted_gradient
from mse_lab.scores.score_block import Scoring
from plain_scores import (
    PROMPT,
    TOLERANCE,
    assert_scores,
    joined,
    relative_gap,
    some_completions,
)

TURNS = [[1, 0, 0, 1, 1, 1], [0, 1, 1, 0, 1, 1], [1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 0, 1]]


@pytest.fixture(params=["gpt2", "llama"])
def policy(request):
    return random_policy(request.param)


@pytest.fixture
def completions(policy):
    """Of one row of tokens four completions that differ in the mask alone, and others."""
    drawn = some_completions(policy).tokens_NT[[0, 0, 0, 0, 1, 2]]
    masks = [np.array(TURNS[row % 4], np.bool_) for row in range(6)]
    return Completions.of_each(list(drawn), 6, [0.0] * 6, policy.ends, masks)


@pytest.fixture
def plain(policy, completions):
    """The scores (N, D) and log-probabilities by the library's own forward pass alone."""
    scores, log_probs = [], []
    for tokens, own in zip(completions.tokens_NT, completions.mask_NT, strict=True):
        with torch.enable_grad(), policy.differentiable():
            text = torch.tensor([PROMPT + tokens.tolist()])
            logits = policy.model(text).logits[0] / policy.temperature
            log_pi = torch.log_softmax(logits, -1)
            total = sum(
                log_pi[len(PROMPT) + place - 1, tokens[place]]
                for place in np.flatnonzero(own)
            )
            total.backward()
            parts = [p.grad.flatten() for p in policy.parameters.values()]
            scores.append(torch.cat(parts).double().numpy())
            log_probs.append(total.item())
    return np.stack(scores), np.array(log_probs)


@pytest.mark.parametrize(
    "how",
    [None, Scoring(6, layer=2), Scoring(6, sliced=True), Scoring(6, alone=True)],
    ids=["kept", "layer", "sliced", "alone"],
)
def test_scores_are_those_of_own_tokens_given_all(how, policy, completions, plain):
    """Equal tokens with unequal masks are unequal completions."""
    scores, log_probs = plain
    bound = TOLERANCE[policy.model.config.model_type]
    found, _ = assert_scores(policy, completions, bound, how, scores)
    assert relative_gap(found.log_probs_N, log_probs) < bound


def test_the_reference_sums_these_scores(policy, completions, plain):
    """After a shared prefix, equal completions once."""
    weights = np.linspace(-1, 2, 12)
    twice = completions[np.arange(12) % 6]
    found, log_probs = weighted_gradient(policy, PROMPT, twice, weights)
    expected = weights @ np.concatenate([plain[0]] * 2)
    bound = TOLERANCE[policy.model.config.model_type]
    assert relative_gap(joined(found), expected) < bound
    assert relative_gap(log_probs, np.tile(plain[1], 2)) < bound
    assert len(twice.distinct()[0]) == 6


def test_lengths_are_of_own_tokens(completions):
    assert completions.own_lengths_N.tolist() == [4, 4, 5, 1, 4, 4]
    assert completions[[0, 3]].own_lengths_N.tolist() == [4, 1]
