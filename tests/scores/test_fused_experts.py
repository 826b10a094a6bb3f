"""Fused experts: taken for what they are where they give what is computed here."""

import dataclasses

import pytest

from enumerated import as_completions
from models import random_policy
from mse_lab.policy.policy import select_parameters
from mse_lab.scores.score_block import score_block
from mse_lab.scores.scoring_plan import find_plan
from plain_scores import PROMPT, autograd_scores, random_reference, relative_gap

COMPLETIONS = as_completions([[4, 5, 6, 1], [3, 7, 1], [2], [8, 9, 10, 3, 1]])


def rule_of_experts(policy):
    [rule] = {
        answer.rule.name
        for module, answer in find_plan(policy).items()
        if module.endswith("0.mlp.experts")
    }
    return rule


@pytest.mark.parametrize("architecture", ["qwen3_moe", "gpt_oss"])
def test_experts_alone_equal_autograd(architecture):
    """Stored as (output, input), and as (input, output) with biases."""
    policy = random_policy(architecture)
    chosen = select_parameters(policy.model, [r"mlp\.experts\."])
    policy = dataclasses.replace(policy, parameters=chosen)
    expected = autograd_scores(policy, COMPLETIONS)
    found = score_block(policy, PROMPT, COMPLETIONS, random_reference(policy))
    assert relative_gap(found.gram_NN, expected @ expected.T) < 1e-12
    assert rule_of_experts(policy) == "fused experts"


def test_experts_that_give_something_else_are_run_again():
    policy = random_policy("qwen3_moe")
    experts = policy.model.model.layers[0].mlp.experts
    honest = experts.forward
    experts.forward = lambda *args: honest(*args) * 1.5
    assert rule_of_experts(policy) == "run again one by one"
