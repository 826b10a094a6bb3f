"""The benchmarks' operations: counted as by hand, in every pass, and by shape."""

from typing import NamedTuple

import pytest
import torch

from benchmarks.operations import Shape, count, reduction_operations
from models import SIZES, random_policy
from mse_lab.policy.log_probabilities import (
    SharedPrefix,
    completion_log_probs,
    sequence_log_probs,
)
from mse_lab.scores import recorder
from mse_lab.scores.factors import OuterProducts, RowSums
from mse_lab.scores.score_block import Scoring, score_block
from mse_lab.scores.scoring_plan import find_plan
from mse_lab.scores.tied_parameters import reduce_factors
from plain_scores import PROMPT, random_reference, some_completions

HIDDEN, INNER = SIZES["hidden_size"], SIZES["intermediate_size"]
HEADS, KEYS = SIZES["num_attention_heads"], SIZES["num_key_value_heads"]
LAYERS, WIDTH, VOCABULARY = SIZES["num_hidden_layers"], 4, 11

# Multiply-adds of a token in a layer's matrices: q, o; k, v; gate, up, down.
MATRICES = 2 * HIDDEN**2 + 2 * HIDDEN * KEYS * WIDTH + 3 * HIDDEN * INNER


def forward(rows, tokens, logits, keys=None):
    """Operations of one forward pass by hand: rows of tokens, logits at some of them."""
    square = tokens * (keys or tokens)
    attention = 2 * 2 * HEADS * WIDTH * square * LAYERS
    matrices = 2 * (tokens * LAYERS * MATRICES + logits * HIDDEN * VOCABULARY)
    return rows * (matrices + attention), rows * attention


@pytest.fixture
def policy():
    return random_policy(dtype=torch.float32)


@pytest.mark.parametrize("graph", [False, True], ids=["no graph", "graph"])
def test_forward_pass_by_hand(policy, graph):
    completions = some_completions(policy, 3)
    longest = int(completions.lengths_N.max())
    tokens = len(PROMPT) + longest - 1
    with torch.set_grad_enabled(graph):
        found = count(lambda: sequence_log_probs(policy, PROMPT, completions))
    assert found == forward(3, tokens, longest)[0]


def test_backward_pass_by_hand(policy):
    """Each matrix product of the forward pass has two in the backward pass.

    Attention has the scores once more and four gradients for the two products of before.
    """
    completions = some_completions(policy, 3)
    longest = int(completions.lengths_N.max())
    whole, attention = forward(3, len(PROMPT) + longest - 1, longest)
    with torch.enable_grad(), policy.differentiable():
        found = count(
            lambda: sequence_log_probs(policy, PROMPT, completions).sum().backward()
        )
    assert found == 3 * (whole - attention) + (1 + 2.5) * attention


def test_shared_prompt_counts_once(policy):
    completions = some_completions(policy, 5)
    longest, shared = int(completions.lengths_N.max()), len(PROMPT) - 1
    prefix = []
    with torch.no_grad():
        before = count(lambda: prefix.append(SharedPrefix(policy, PROMPT)))
        after = count(lambda: completion_log_probs(policy, prefix[0], completions))
    assert before == forward(1, shared, 1)[0]
    assert after == forward(5, longest, longest, shared + longest)[0]


def scored(policy, how=None):
    """Operations of scoring a block of six, and tokens read of each."""
    completions, reference = some_completions(policy, 6), random_reference(policy)
    find_plan(policy)  # made once for a policy, and none of a block
    found = count(lambda: score_block(policy, PROMPT, completions, reference, how=how))
    return found, len(PROMPT) + int(completions.lengths_N.max()) - 1


def test_scoring_by_hand(policy, monkeypatch):
    """Activations only on the way back, no gradient of a weight: as much as forward."""
    both, tokens = scored(policy)
    products = []
    reduce = recorder.reduce_factors
    monkeypatch.setattr(
        recorder,
        "reduce_factors",
        lambda *factors: (
            products.append(count(lambda: reduce(*factors))) or reduce(*factors)
        ),
    )
    again, _ = scored(policy)
    whole, attention = forward(6, tokens, tokens - len(PROMPT) + 1)
    # Reduced twice this time, once of it counted apart.
    assert again - both == sum(products)
    assert both - sum(products) == 2 * (whole - attention) + (1 + 2.5) * attention


def test_recomputed_layers_cost_one_more_forward_pass(policy):
    whole, tokens = scored(policy)
    again, _ = scored(policy, Scoring(6, layer=2))
    assert again == whole + forward(6, tokens, 0)[0]


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def outer(tokens, rows, columns, shared=0):
    return Shape(OuterProducts, tokens, rows, columns, shared, torch.float32)


ROWS = Shape(RowSums, 9, 9, 5, 0, torch.float32)


class Case(NamedTuple):
    """A parameter's gradient, its factors of ten completions, and their shapes."""

    size: tuple[int, int]
    factors: list
    shapes: tuple


FACTORS = {
    "formed": Case(
        (3, 5), [OuterProducts(random(10, 9, 3), random(10, 9, 5))], (outer(9, 3, 5),)
    ),
    "contracted": Case(
        (90, 80), [OuterProducts(random(10, 1, 90), random(10, 1, 80))], (outer(1, 90, 80),)
    ),
    "shared columns": Case(
        (64, 96),
        [OuterProducts(random(10, 40, 64), random(1, 40, 96).repeat(10, 1, 1), 38)],
        (outer(40, 64, 96, 38),),
    ),
    "two uses": Case(
        (3, 5),
        [OuterProducts(random(10, 9, 3), random(10, 9, 5))] * 2,
        (outer(9, 3, 5), outer(9, 3, 5)),
    ),
    "rows": Case(
        (30, 5), [RowSums(torch.arange(9).repeat(10, 1), random(10, 9, 5))], (ROWS,)
    ),
    "rows and products": Case(
        (30, 5),
        [
            RowSums(torch.arange(9).repeat(10, 1), random(10, 9, 5)),
            OuterProducts(random(10, 4, 30), random(10, 4, 5)),
        ],
        (ROWS, outer(4, 30, 5)),
    ),
}


@pytest.mark.parametrize("kind", FACTORS)
def test_reductions_are_counted_by_shape(kind):
    """Without content, to the last one."""
    size, factors, shapes = FACTORS[kind]
    found = count(lambda: reduce_factors(factors, random(*size)))
    assert reduction_operations(shapes, 10) == found > 0
