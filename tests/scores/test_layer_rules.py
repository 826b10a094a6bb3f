"""Rules: any module in a model's place has exact scores, or is refused by name."""

import dataclasses

import pytest

from enumerated import as_completions
from foreign_modules import MODULES, Around, PlusOne, Router, Scaled, Tanh, linear
from foreign_policies import assert_exact, policy_with
from models import random_policy
from mse_lab.policy.policy import select_parameters
from mse_lab.scores.score_block import Scoring, score_block
from mse_lab.scores.scoring_plan import find_plan
from plain_scores import PROMPT, autograd_scores, random_reference, relative_gap


@pytest.mark.parametrize("layer", [None, 2], ids=["whole", "parts of layers"])
@pytest.mark.parametrize("name", MODULES)
def test_any_module_is_exact(name, layer):
    assert_exact(policy_with(MODULES[name]), how=Scoring(3, layer=layer))


@pytest.mark.parametrize(
    ("module", "rule"),
    [
        (MODULES["rms norm"], "affine in each entry"),
        (PlusOne, "affine in each entry"),
        (MODULES["layer norm"], "affine in each entry"),
        (linear, "closed form"),
        (Scaled, "run again together"),
        (Router, "run again together"),
        (Tanh, "run again one by one"),
    ],
)
def test_the_rule_taken(module, rule):
    """Cheap where it can be: what has a rule is not run for each completion alone."""
    policy = policy_with(lambda: Around(module()))
    chosen = select_parameters(policy.model, ["mlp.inner"])
    policy = dataclasses.replace(policy, parameters=chosen)
    assert_exact(policy)
    [(module, answer)] = find_plan(policy).items()
    assert (module, answer.rule.name) == ("model.layers.0.mlp.inner", rule)


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
