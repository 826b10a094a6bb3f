"""Rules: any module in a model's place has exact scores, or is refused by name."""

import dataclasses

import pytest

from foreign_modules import MODULES, Around, PlusOne, Router, Scaled, Tanh, linear
from foreign_policies import assert_exact, policy_with
from mse_lab.policy.policy import select_parameters
from mse_lab.scores.score_block import Scoring
from mse_lab.scores.scoring_plan import find_plan


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
