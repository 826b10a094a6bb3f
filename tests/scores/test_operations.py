"""What scoring costs, as counts: operations of matrix products, by hand, in every pass."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from models import SIZES, random_policy
from mse_lab.policy.log_probabilities import (
    SharedPrefix,
    completion_log_probs,
    sequence_sums,
)
from mse_lab.scores import recorder
from mse_lab.scores.score_block import score_block
from mse_lab.scores.scoring_plan import find_plan
from plain_scores import PROMPT, random_reference, some_completions

HIDDEN, INNER = SIZES["hidden_size"], SIZES["intermediate_size"]
KEYS, LAYERS = SIZES["num_key_value_heads"], SIZES["num_hidden_layers"]
WIDTH, VOCABULARY = 4, 11

# Multiply-adds of a token in a layer's matrices: q, o; k, v; gate, up, down.
MATRICES = 2 * HIDDEN**2 + 2 * HIDDEN * KEYS * WIDTH + 3 * HIDDEN * INNER


def forward(rows, tokens, logits):
    """Operations of one forward pass, two a multiply-add: logits at some of the tokens."""
    return rows * 2 * (tokens * LAYERS * MATRICES + logits * HIDDEN * VOCABULARY)


def count(action):
    """Operations of matrix products; attention's own are left out."""
    with FlopCounterMode(display=False) as counter:
        action()
    found = counter.get_flop_counts()["Global"].items()
    return sum(number for operator, number in found if "attention" not in str(operator))


@pytest.fixture
def policy():
    return random_policy(dtype=torch.float32)


def test_a_shared_prompt_is_run_once(policy):
    completions = some_completions(policy, 5)
    longest, shared = int(completions.lengths_N.max()), len(PROMPT) - 1
    prefix = []
    with torch.no_grad():
        whole = count(lambda: sequence_sums(policy, PROMPT, completions).log_probs_N)
        before = count(lambda: prefix.append(SharedPrefix(policy, PROMPT)))
        after = count(lambda: completion_log_probs(policy, prefix[0], completions))
    assert whole == forward(5, shared + longest, longest)
    assert before == forward(1, shared, 1)
    assert after == forward(5, longest, longest)


def scored(policy):
    """Operations of scoring a block of six, and tokens read of each."""
    completions, reference = some_completions(policy, 6), random_reference(policy)
    find_plan(policy)  # made once for a policy, and none of a block
    found = count(lambda: score_block(policy, PROMPT, completions, reference))
    return found, len(PROMPT) + int(completions.lengths_N.max()) - 1


def test_scoring_is_one_pass_without_the_weights_gradients(policy, monkeypatch):
    """Each product has one more on the way back, not two; the scores' own are apart."""
    both, tokens = scored(policy)
    products, reduce = [], recorder.reduce_factors
    monkeypatch.setattr(
        recorder,
        "reduce_factors",
        lambda *factors: (
            products.append(count(lambda: reduce(*factors))) or reduce(*factors)
        ),
    )
    again, _ = scored(policy)
    # Reduced twice this time, once of it counted apart.
    assert again - both == sum(products) > 0
    assert both - sum(products) == 2 * forward(6, tokens, tokens - len(PROMPT) + 1)
