"""Every architecture, module and way to score a block: exact, or seen not to be.

The truth (`plain_scores.py`) is the model's own forward pass, softmax and autograd of one
completion at a time. Against it are held the Gram matrix, products with a reference, norms
in each parameter, log-probabilities, logits norms, a weighted sum, and the reference
gradient.
"""

import dataclasses

import numpy as np
import pytest
import transformers

from enumerated import as_completions
from foreign_modules import (
    MODULES,
    ScaledTable,
    UnpaddedTable,
    policy_with,
    positions,
    unused,
)
from models import ARCHITECTURES, random_policy
from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import select_parameters
from mse_lab.scores import factors, layer_rules, parameter_scores
from mse_lab.scores.factors import Dense
from mse_lab.scores.module_hooks import Call
from mse_lab.scores.recorder import Weighted
from mse_lab.scores.reference import weighted_gradient
from mse_lab.scores.score_block import Scoring, score_block, score_difference
from mse_lab.scores.scoring_plan import missing_rule
from mse_lab.scores.sketches import Sketch, Whole
from plain_scores import (
    PROMPT,
    assert_scores,
    gaps,
    joined,
    plain_scores,
    random_reference,
    relative_gap,
    some_completions,
)

# Norms, softmax, rotations and routers are computed in float32 by many whatever the model's
# precision; by these in other orders in a block than one completion after another.
EXACT, FLOAT32 = 1e-12, 1e-6
ROUNDED = {
    "gemma",
    "gemma2",
    "gemma3_text",
    "deepseek_v3",
    "qwen3_next",
    "cohere2",
    "mamba",
    "mamba2",
    "recurrent_gemma",
}


# Each with its head and its embedding as published, one matrix or two, and some of them
# the other way.
CONFIGS = {name: transformers.AutoConfig.for_model(name) for name in ARCHITECTURES}
MODELS = {name: (name, one.tie_word_embeddings) for name, one in CONFIGS.items()} | {
    "qwen2, tied": ("qwen2", True),
    "gpt2, untied": ("gpt2", False),
}

SOME = as_completions([[4, 5, 6, 1], [3, 7, 1], [2], [8, 9, 10, 3, 1]])
# How a block is scored, and bytes of a slice of its gradients and logits.
WAYS = {
    "whole": (Scoring(), 2**26),
    "sliced": (Scoring(sliced=True), 90),
    "alone": (Scoring(alone=True), 2**26),
    "alone, in small slices": (Scoring(alone=True), 90),
}
# What differs by architecture does so in these; the others combine the same code.
FEW = ("whole", "sliced")
IN_EVERY_WAY = {"qwen2, tied", "gemma2"}


def assert_exact(monkeypatch, policy, completions, bound, ways=WAYS):
    truth, found = plain_scores(policy, completions), {}
    if missing_rule(policy):
        ways = [way for way in ways if WAYS[way][0].alone] or ["alone"]
    for way in ways:
        how, slice_bytes = WAYS[way]
        monkeypatch.setattr(factors, "SLICE_BYTES", slice_bytes)
        found[way] = gaps(policy, completions, how, truth)
    assert max(max(each.values()) for each in found.values()) < bound, found
    return truth


@pytest.mark.parametrize("name", MODELS)
def test_every_architecture(monkeypatch, name):
    """The reference shares the prompt, so that float32 in the middle is rounded anew."""
    architecture, tied = MODELS[name]
    policy = random_policy(architecture, tied=tied)
    bound = FLOAT32 if architecture in ROUNDED else EXACT
    ways = WAYS if name in IN_EVERY_WAY else FEW
    truth = assert_exact(monkeypatch, policy, SOME, bound, ways)
    scores_ND, log_probs_N, _ = truth
    weights = np.array([1.0, -2.0, 0.5, 3.0])
    found, recomputed_N = weighted_gradient(policy, PROMPT, SOME, weights)
    assert relative_gap(joined(found), weights @ scores_ND) < 1e-5
    assert relative_gap(recomputed_N, log_probs_N) < 1e-5


@pytest.mark.parametrize("name", MODULES)
def test_every_module_in_the_place_of_a_layers(monkeypatch, name):
    policy = policy_with(MODULES[name])
    assert_exact(monkeypatch, policy, SOME, FLOAT32, ways=FEW)


def chosen(architecture, *patterns, **options):
    policy = random_policy(architecture, **options)
    parameters = select_parameters(policy.model, list(patterns))
    return dataclasses.replace(policy, parameters=parameters)


def masked(policy):
    """Tokens of a tool between the policy's own; of one row four masks, and others."""
    turns = [[1, 0, 0, 1, 1, 1], [0, 1, 1, 0, 1, 1], [1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 0, 1]]
    drawn = some_completions(policy).tokens_NT[[0, 0, 0, 0, 1, 2]]
    masks = [np.array(turns[row % 4], np.bool_) for row in range(6)]
    return Completions.of_each(list(drawn), 6, [0.0] * 6, policy.ends, masks)


# A policy, completions or what makes them of it, and the bound.
CASES = {
    "parameters of mlp": (lambda: chosen("qwen2", "mlp"), SOME, EXACT),
    "of a layer and norms": (lambda: chosen("qwen2", r"layers\.1\.", "norm"), SOME, EXACT),
    "of biases": (lambda: chosen("qwen2", "q_proj.bias"), SOME, EXACT),
    # No gradient enters the first layer.
    "of the last mlp": (lambda: chosen("qwen2", r"layers\.1\.mlp"), SOME, EXACT),
    "beside experts": (lambda: chosen("qwen3_moe", "self_attn"), SOME, EXACT),
    # As autograd has it: padding_idx gets no gradient through the lookup.
    "padding row": (
        lambda: random_policy(tied=False), as_completions([[0, 0, 1], [4, 0, 1]]), EXACT,
    ),
    "a table that scales": (
        lambda: policy_with(ScaledTable, "embedding"),
        as_completions([[0, 4, 0, 1], [3, 0, 1], [2]]), FLOAT32,
    ),
    "a padding row that counts": (
        lambda: policy_with(UnpaddedTable, "embedding"),
        as_completions([[0, 4, 0, 1], [3, 0, 1], [2]]), FLOAT32,
    ),
    "a layer for long ones": (
        lambda: policy_with(unused),
        as_completions([[4, 5, 6, 7, 8, 1], [5, 6, 9, 9, 8, 7]]), FLOAT32,
    ),
    "positions once for all": (lambda: policy_with(positions), SOME, FLOAT32),
    "masks": (lambda: random_policy("gpt2"), masked, EXACT),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_case(monkeypatch, case):
    make, completions, bound = CASES[case]
    policy = make()
    completions = completions(policy) if callable(completions) else completions
    assert_exact(monkeypatch, policy, completions, bound, (*FEW, "alone"))


def test_what_no_completion_of_a_block_needs_has_no_score():
    """Its module is called, and its reference is not zero."""
    policy = policy_with(unused)
    short = as_completions([[4, 1], [2]])
    found = score_block(policy, PROMPT, short, random_reference(policy))
    inner = [name for name in policy.parameters if "inner" in name]
    assert len(inner) == 2
    assert all((found.norms2[name] == 0).all() for name in inner)


def flipped(call, tensor, plain=Call.split):
    """Take gradients of what is one for all as those of other completions."""
    found = plain(call, tensor)
    return found.flip(0) if call.common else found


def untied(sums, outer, reference, plain=parameter_scores._reduce_rows):
    """Leave out the cross terms of both uses of a matrix."""
    return plain(sums, None, reference)


def vanishing(values):
    """Leave out what vectors gain."""
    return Dense(0 * values)


@pytest.mark.parametrize(
    ("architecture", "where", "name", "fault"),
    [
        ("gpt2", Call, "split", flipped),
        ("gpt2", parameter_scores, "_reduce_rows", untied),
        ("qwen2", layer_rules, "Dense", vanishing),
    ],
    ids=["other rows", "no cross terms", "no vectors"],
)
def test_a_fault_would_be_seen(monkeypatch, architecture, where, name, fault):
    """Negative controls: also by the check of every run, where the norms are wrong."""
    policy = random_policy(architecture)
    assert missing_rule(policy) is None
    monkeypatch.setattr(where, name, fault)
    assert gaps(policy, SOME)["gram"] > 1e-3
    if fault is vanishing:
        reference = random_reference(policy)
        scored = score_block(policy, PROMPT, SOME, reference)
        assert score_difference(policy, PROMPT, SOME, reference, scored) > 1e-3


def test_repeated_completions_are_scored_once(monkeypatch):
    """With the sum of their weights."""
    policy = random_policy()
    repeated = some_completions(policy)[np.array([3, 3, 0, 8, 3, 0])]
    read, forward = [], policy.model.forward

    def counted(tokens, *rest, **options):
        read.append(len(tokens))
        return forward(tokens, *rest, **options)

    assert_scores(policy, repeated, EXACT)  # and the plan is made
    monkeypatch.setattr(policy.model, "forward", counted)
    found = score_block(policy, PROMPT, repeated, None)
    assert read == [3]
    assert relative_gap(found.log_probs_N, repeated.log_probs_N) < 1e-9


def test_a_sketch_takes_the_sum_by_name():
    """Whatever order the backward pass meets the parameters in."""
    policy = random_policy("gpt2")
    completions, weights_N = some_completions(policy), np.linspace(-1.0, 2.0, 9)
    gradient, _ = weighted_gradient(policy, PROMPT, completions, weights_N)
    for make in (
        lambda: Sketch(policy.parameters, 3, 64),
        lambda: Whole(policy.parameters),
    ):
        expected = make()
        for name, part in gradient.items():
            expected.add(name, [part])
        # Several at once, each with weights of its own.
        weighted = [Weighted(scale * weights_N, make()) for scale in (1, -2)]
        score_block(policy, PROMPT, completions, None, weighted=weighted)
        assert relative_gap(weighted[0].keeper.vector, expected.vector) < 1e-5
        assert relative_gap(weighted[1].keeper.vector, -2 * expected.vector) < 1e-5


def test_equal_rewards_leave_no_sum_to_form(monkeypatch):
    """Their weights are zero; or those of equal completions cancel."""
    monkeypatch.setattr(Whole, "add", None)  # what is called fails
    policy = random_policy()
    some = some_completions(policy)[np.array([3, 3, 0])]
    for weights_N in (np.zeros(3), np.array([1.0, -1.0, 0.0])):
        weighted = Weighted(weights_N, Whole(policy.parameters))
        score_block(policy, PROMPT, some, None, weighted=[weighted])
        assert not weighted.keeper.vector.any()
    with pytest.raises(TypeError):
        score_block(
            policy, PROMPT, some, None, weighted=[Weighted(np.ones(3), weighted.keeper)]
        )
