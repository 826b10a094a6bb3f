"""Operations: counted as by hand, in every pass, and foretold at other sizes."""

from dataclasses import replace

import pytest
import torch

from models import SIZES, random_policy
from mse_lab.policy.log_probabilities import completion_log_probs, sequence_log_probs
from mse_lab.policy.shared_prefix import SharedPrefix
from mse_lab.run import one_prompt as measure
from mse_lab.run.operations import Counter, counting, reduction_operations, shape_of
from mse_lab.run.plan_watch import PASSES, PRODUCTS, watching
from mse_lab.scores.block import Scoring
from mse_lab.scores.factors import Dense, OuterProducts, RowSums
from mse_lab.scores.scoring_plan import find_plan
from mse_lab.scores.tied_parameters import reduce_factors
from scores.test_block import PROMPT, random_reference, some_completions

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


def count(work):
    with counting() as counter:
        work()
    return counter.total


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


def scored(policy, size, how=None, kinds=None):
    """Score a block, of so many kinds of tokens, watched; the watch, and tokens read."""
    completions, reference = some_completions(policy, size), random_reference(policy)
    if kinds:
        completions = replace(completions, tokens_NT=completions.tokens_NT % kinds)
    find_plan(policy)  # its calibration pass is none of the block's
    with watching(policy.device, Counter()) as watch:
        measure.score_block(policy, PROMPT, completions, reference, how=how)
    return watch, len(PROMPT) + int(completions.lengths_N.max()) - 1


def test_scoring_passes_by_hand(policy):
    """Activations only on the way back, no gradient of a weight: as much as forward."""
    watch, tokens = scored(policy, 6)
    whole, attention = forward(6, tokens, tokens - len(PROMPT) + 1)
    assert watch.operations[PASSES] == 2 * (whole - attention) + (1 + 2.5) * attention


def test_recomputed_layers_cost_one_more_forward_pass(policy):
    whole, tokens = scored(policy, 6)
    again, _ = scored(policy, 6, Scoring(6, layer=2))
    layers = forward(6, tokens, 0)[0]
    assert again.operations[PASSES] == whole.operations[PASSES] + layers
    assert again.operations[PRODUCTS] == whole.operations[PRODUCTS]


@pytest.mark.parametrize("sliced", [False, True], ids=["whole head", "sliced head"])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_products_foretold_for_a_larger_block(tied, sliced):
    """From two completions to twelve, where other ways of reducing are the cheaper.

    Rows of embeddings that occur are the one thing that the small block cannot tell, and
    are nearly as many in both where tokens are of few kinds; tied ones are multiplied with
    the head's gradients too.
    """
    policy = random_policy(dtype=torch.float32, tied=tied, vocabulary=300)
    small, few = scored(policy, 2, Scoring(2, sliced=sliced), kinds=8)
    large, many = scored(policy, 12, Scoring(12, sliced=sliced), kinds=8)
    found = sum(
        reduction_operations(
            tuple(shape.lengthened(few, 0, many - few) for shape in shapes), 12
        )
        for shapes, _ in small.reductions
    )
    assert found == pytest.approx(large.operations[PRODUCTS], rel=0.1 if tied else 0.05)
    proportional = 6 * small.operations[PRODUCTS]
    assert proportional != pytest.approx(large.operations[PRODUCTS], rel=0.2)


def test_products_foretold_for_another_prompt():
    """The head knows the completion's tokens only; all else has the prompt's, too."""
    policy = random_policy(dtype=torch.float32, tied=False, vocabulary=300)
    completions, reference = some_completions(policy, 6), random_reference(policy)
    watches = []
    find_plan(policy)
    for prompt in (PROMPT, PROMPT * 3):
        with watching(policy.device, Counter()) as watch:
            measure.score_block(policy, prompt, completions, reference)
        watches.append(watch)
    sequence = len(PROMPT) + int(completions.lengths_N.max()) - 1
    found = sum(
        reduction_operations(
            tuple(shape.lengthened(sequence, 2 * len(PROMPT), 0) for shape in shapes), 6
        )
        for shapes, _ in watches[0].reductions
    )
    assert found == pytest.approx(watches[1].operations[PRODUCTS], rel=0.02)


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


FACTORS = {
    "formed": lambda n: [OuterProducts(random(n, 9, 3), random(n, 9, 5))],
    "contracted": lambda n: [OuterProducts(random(n, 1, 90), random(n, 1, 80))],
    "shared columns": lambda n: [
        OuterProducts(random(n, 40, 64), random(1, 40, 96).repeat(n, 1, 1), 38)
    ],
    "two uses": lambda n: [OuterProducts(random(n, 9, 3), random(n, 9, 5))] * 2,
    "dense": lambda n: [Dense(random(n, 3, 5))],
    "rows": lambda n: [RowSums(torch.arange(9).repeat(n, 1), random(n, 9, 5))],
    "rows and products": lambda n: [
        RowSums(torch.arange(9).repeat(n, 1), random(n, 9, 5)),
        OuterProducts(random(n, 4, 30), random(n, 4, 5)),
    ],
}


@pytest.mark.parametrize("kind", FACTORS)
def test_reductions_foretold(kind):
    """A shape of three completions tells the operations of ten, to the last one."""
    rows = {"dense": 3, "rows": 30, "rows and products": 30, "contracted": 90,
            "shared columns": 64}.get(kind, 3)  # fmt: skip
    columns = {"contracted": 80, "shared columns": 96}.get(kind, 5)
    found = count(lambda: reduce_factors(FACTORS[kind](10), random(rows, columns)))
    shapes = tuple(shape_of(factor) for factor in FACTORS[kind](3))
    assert found > 0
    assert reduction_operations(shapes, 10) == found


def test_watched_functions_are_put_back(policy):
    before = measure.score_block
    with pytest.raises(ZeroDivisionError):
        fail_while_watched(policy, before)
    assert measure.score_block is before


def fail_while_watched(policy, before):
    with watching(policy.device, None):
        assert measure.score_block is not before
        raise ZeroDivisionError
