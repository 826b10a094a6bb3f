"""Scores: equal to single-completion autograd, in every parameter, tied ones included."""

import dataclasses

import numpy as np
import pytest
import torch

from enumerated import as_completions
from models import random_policy
from mse_lab.policy.log_probabilities import sequence_log_probs
from mse_lab.policy.policy import select_parameters
from mse_lab.scores import factors, layer_rules
from mse_lab.scores.factors import Dense
from mse_lab.scores.score_block import Scoring, score_block, score_difference
from mse_lab.scores.scoring_plan import find_plan
from plain_scores import (
    PROMPT,
    TOLERANCE,
    assert_scores,
    autograd_scores,
    random_reference,
    relative_gap,
    some_completions,
)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("architecture", list(TOLERANCE))
def test_scores_equal_autograd(architecture, tied):
    policy = random_policy(architecture, tied=tied)
    assert_scores(policy, some_completions(policy), TOLERANCE[architecture])


def test_repeated_completions_are_scored_once():
    policy = random_policy()
    repeated = some_completions(policy)[np.array([3, 3, 0, 8, 3, 0])]
    expected = autograd_scores(policy, repeated)
    find_plan(policy)
    read = []
    handle = policy.model.register_forward_pre_hook(
        lambda _, inputs, __: read.append(len(inputs[0])), with_kwargs=True
    )
    found, _ = assert_scores(policy, repeated, TOLERANCE["qwen2"], scores_ND=expected)
    handle.remove()
    assert read == [3]
    assert relative_gap(found.log_probs_N, repeated.log_probs_N) < 1e-9


def test_that_completions_repeat_tells_no_more_products():
    """Of a block that is scored in parts only norms are known, whatever was drawn."""
    policy = random_policy()
    repeated = some_completions(policy)[np.array([3, 3, 3, 5])]
    reference = random_reference(policy)
    whole = score_block(policy, PROMPT, repeated, reference)
    parts = score_block(policy, PROMPT, repeated, reference, how=Scoring(2))
    np.testing.assert_allclose(parts.gram_NN.diagonal(), whole.gram_NN.diagonal())
    assert np.isfinite(parts.gram_NN).sum() == 4
    assert np.isfinite(whole.gram_NN).all()


WAYS = {
    "sliced": Scoring(9, sliced=True),
    "layers": Scoring(9, layer=9),
    "parts of layers": Scoring(9, layer=2),
    "parts of layers, sliced": Scoring(9, layer=4, sliced=True),
}


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("architecture", list(TOLERANCE))
def test_memory_changes_no_score(monkeypatch, architecture, way, tied):
    monkeypatch.setattr(factors, "SLICE_BYTES", 1000)
    policy = random_policy(architecture, tied=tied)
    completions, reference = some_completions(policy), random_reference(policy)
    expected = score_block(policy, PROMPT, completions, reference)
    found = score_block(policy, PROMPT, completions, reference, how=WAYS[way])
    bound = TOLERANCE[architecture] / 10
    assert relative_gap(found.gram_NN, expected.gram_NN) < bound
    assert relative_gap(found.products_N, expected.products_N) < bound
    assert relative_gap(found.log_probs_N, expected.log_probs_N) < bound
    for name, norms2 in expected.norms2.items():
        np.testing.assert_allclose(found.norms2[name], norms2, rtol=1e-4, atol=1e-9)


def test_norms_alone_where_a_block_does_not_fit():
    policy = random_policy()
    completions, reference = some_completions(policy), random_reference(policy)
    whole = score_block(policy, PROMPT, completions, reference)
    parts = score_block(policy, PROMPT, completions, reference, how=Scoring(4))
    np.testing.assert_allclose(
        parts.gram_NN.diagonal(), whole.gram_NN.diagonal(), rtol=1e-6
    )
    np.testing.assert_allclose(parts.products_N, whole.products_N, rtol=1e-6)
    off = ~np.eye(len(completions), dtype=bool)
    assert np.isnan(parts.gram_NN[off]).all()


def test_gram_shares_the_spectrum_of_the_sum_of_outer_products():
    """S S' and S'S have the same nonzero eigenvalues; the second is never built by us."""
    policy = random_policy("gpt2")
    completions = some_completions(policy, 5)
    scores_ND = autograd_scores(policy, completions)
    found = score_block(policy, PROMPT, completions, random_reference(policy))
    singular = np.linalg.svd(scores_ND, compute_uv=False) ** 2
    np.testing.assert_allclose(np.linalg.eigvalsh(found.gram_NN)[::-1], singular, rtol=1e-8)


def test_scores_sum_to_the_batch_gradient():
    policy = random_policy()
    completions = some_completions(policy)
    with torch.enable_grad(), policy.differentiable():
        sequence_log_probs(policy, PROMPT, completions).sum().backward()
        batch = {name: p.grad.clone() for name, p in policy.parameters.items()}
    found = score_block(policy, PROMPT, completions, batch)
    total = sum(float((part**2).sum()) for part in batch.values())
    np.testing.assert_allclose(found.gram_NN.sum(), total, rtol=1e-5)
    np.testing.assert_allclose(found.products_N.sum(), total, rtol=1e-5)


def test_padding_changes_nothing():
    policy = random_policy()
    completions, reference = some_completions(policy), random_reference(policy)
    plain = score_block(policy, PROMPT, completions, reference)
    padded = score_block(policy, PROMPT, completions, reference, padding=4)
    assert relative_gap(padded.gram_NN, plain.gram_NN) < 1e-6
    np.testing.assert_allclose(padded.log_probs_N, plain.log_probs_N, rtol=1e-6)


def test_tokens_after_the_end_do_not_count():
    policy = random_policy()
    one = as_completions([[4, 5, 1, 3, 7]])
    ended = score_block(
        policy, PROMPT, as_completions([[4, 5, 1]]), random_reference(policy)
    )
    cut = type(one)(one.tokens_NT, np.array([3]), one.log_probs_N, one.ended_N)
    longer = score_block(policy, PROMPT, cut, random_reference(policy))
    np.testing.assert_allclose(longer.gram_NN, ended.gram_NN, rtol=1e-6)


def test_the_padding_row_is_constant_when_looked_up():
    """As autograd has it: padding_idx gets no gradient through the lookup."""
    policy = random_policy("qwen2", tied=False)
    assert_scores(policy, as_completions([[0, 0, 1], [4, 0, 1]]), 1e-5)


@pytest.mark.parametrize(
    "patterns", [["mlp"], [r"layers\.1\.", "norm"], ["q_proj.bias"]], ids=str
)
def test_chosen_parameters_only(patterns):
    policy = random_policy()
    chosen = select_parameters(policy.model, patterns)
    policy = dataclasses.replace(policy, parameters=chosen)
    assert_scores(policy, some_completions(policy), 1e-5)


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
