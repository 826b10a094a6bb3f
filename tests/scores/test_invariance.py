"""A completion alone, padded and in its block: the same score, or else it is seen."""

import pytest
import torch

from models import random_policy
from mse_lab.scores import layer_rules
from mse_lab.scores.factors import Dense
from mse_lab.scores.invariance import score_difference
from mse_lab.scores.score_block import score_block
from plain_scores import PROMPT, random_reference, some_completions


@pytest.fixture(scope="module")
def policy():
    return random_policy()


def test_scores_alone_padded_and_batched_agree(policy):
    block = some_completions(policy, 8)
    reference = random_reference(policy)
    scored = score_block(policy, PROMPT, block, reference)
    assert score_difference(policy, PROMPT, block, reference, scored) < 1e-5


def test_a_use_that_the_hooks_miss_is_caught(monkeypatch, policy):
    """Biases left out of the linear rule: plain autograd tells."""
    whole = layer_rules._CLOSED[torch.nn.Linear]

    def without_bias(module, x, d):
        found = whole(module, x, d)
        return {**found, "bias": Dense(0 * found["bias"].values)}

    monkeypatch.setitem(layer_rules._CLOSED, torch.nn.Linear, without_bias)
    block = some_completions(policy, 8)
    reference = random_reference(policy)
    scored = score_block(policy, PROMPT, block, reference)
    assert score_difference(policy, PROMPT, block, reference, scored) > 1e-3
