"""Rules: which module answers by which, what hooks see of its calls, and what has none."""

import dataclasses

import pytest
from torch import nn
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm

from enumerated import as_completions
from foreign_modules import (
    MODULES,
    ScaledTable,
    UnpaddedTable,
    adds_in_place,
    adds_to_product,
    around,
    bypass,
    flat,
    in_place,
    linear,
    made,
    plus_one,
    policy_with,
    positions,
    scaled,
    tanh,
    writes_over_input,
)
from models import random_policy
from mse_lab.errors import InputError
from mse_lab.policy.policy import select_parameters
from mse_lab.scores.layer_rules import RULES
from mse_lab.scores.score_block import score_block
from mse_lab.scores.scoring_plan import find_plan, missing_rule
from plain_scores import PROMPT, random_reference

SOME = as_completions([[4, 5, 6, 1], [3, 7, 1], [2]])
LINEAR, LOOKUP, NORM = RULES


def rows_of(policy):
    """Give a plan's lines: module, its parameters, rule."""
    return [
        (module, " ".join(answer.names), answer.rule)
        for module, answer in find_plan(policy).items()
    ]


KINDS = {nn.Linear: LINEAR, nn.Embedding: LOOKUP, Qwen2RMSNorm: NORM}


def by_kind(model):
    """Each module that owns parameters, its names of them, and its kind's rule."""
    for owner, module in model.named_modules():
        if own := [name for name, _ in module.named_parameters(recurse=False)]:
            yield owner, " ".join(own), KINDS[type(module)]


PLANS = {
    "qwen2": lambda: random_policy(tied=False),
    "qwen2, tied": lambda: random_policy(tied=True),
    "linear": lambda: policy_with(linear),
    "result changed in place": lambda: policy_with(adds_in_place),
    "product changed in place": lambda: policy_with(adds_to_product),
    "one lookup for all completions": lambda: policy_with(positions),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_plan_of_a_model(name):
    policy = PLANS[name]()
    assert rows_of(policy) == [*by_kind(policy.model)]
    plan = find_plan(policy)
    named = [plan[one].names["weight"] for one in ("model.embed_tokens", "lm_head")]
    assert len(set(named)) == (1 if "tied" in name else 2)


def watched():
    """A layer whose hook and other forward change nothing."""
    module = linear()
    module.register_forward_hook(lambda *_: None)
    module.forward = lambda x: nn.Linear.forward(module, x)
    return module


@pytest.mark.parametrize(
    ("module", "rule"),
    [
        (MODULES["rms norm"], NORM),
        (plus_one, NORM),
        (MODULES["layer norm"], NORM),
        (watched, LINEAR),
    ],
)
def test_the_cheapest_rule_is_taken(module, rule):
    policy = policy_with(lambda: around(module()))
    chosen = select_parameters(policy.model, ["mlp.inner"])
    policy = dataclasses.replace(policy, parameters=chosen)
    [(owner, _, taken)] = rows_of(policy)
    assert (owner, taken) == ("model.layers.0.mlp.inner", rule)


def test_a_policy_with_other_parameters_has_another_plan():
    policy = random_policy()
    plan = find_plan(policy)
    chosen = {name: one for name, one in policy.parameters.items() if "mlp" in name}
    other = find_plan(dataclasses.replace(policy, parameters=chosen))
    named = {name for answer in other.values() for name in answer.names.values()}
    assert named == set(chosen)
    assert find_plan(policy) is plan


@made(inner=linear)
def used_later(self, x):
    """Multiplies only where a sequence is longer than the calibration's."""
    return self.inner(x) if x.shape[1] > 20 else x


ROWS, OTHER = "does not give one row for each", "it is no linear map, lookup or norm with"


class Bent(ScaledTable):
    def forward(self, tokens):
        return super().forward(tokens).tanh()


class Positions(ScaledTable):
    def forward(self, tokens):
        return super().forward(tokens.cumsum(1) % 11)


NO_RULE = {
    "used without a call": (bypass, "it is not called"),
    "flattened tokens": (flat, ROWS),
    "experts": (lambda: random_policy("qwen3_moe").model.model.layers[0].mlp, ROWS),
    "a subclass": (scaled, OTHER),
    "a hook": (MODULES["linear with a hook"], OTHER),
    "another forward": (MODULES["linear with another forward"], OTHER),
    "neither product nor lookup": (tanh, OTHER),
    "more than a lookup": (Bent, OTHER),
    "a lookup of other tokens": (Positions, OTHER),
    "a padding row that has a gradient": (UnpaddedTable, OTHER),
}


@pytest.mark.parametrize("name", NO_RULE)
def test_what_has_no_rule_says_why(name):
    module, reason = NO_RULE[name]
    where = "embedding" if module in (Bent, Positions, UnpaddedTable) else "mlp"
    assert reason in missing_rule(policy_with(module, where))


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (used_later, "the calibration pass did not use it"),
        # Its sequences are longer than the calibration's.
        (writes_over_input(20), "its input is changed after the call"),
        # Autograd's own error, as where the parameters are trained.
        (in_place, "modified by an inplace operation"),
    ],
)
def test_what_is_not_met_in_the_calibration_is_refused(module, reason):
    policy = policy_with(module)
    with pytest.raises(InputError, match=reason):
        score_block(policy, PROMPT * 3, SOME, random_reference(policy))
