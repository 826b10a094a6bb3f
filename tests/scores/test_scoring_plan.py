"""The scoring plan: which module answers by which rule, row by row, and once a policy."""

import dataclasses

import pytest

from foreign_modules import Bypass, Experts, linear
from foreign_policies import policy_with
from models import random_policy, write_adapter, write_checkpoint
from mse_lab.policy.policy import load_policy
from mse_lab.probe.probe_files import parse_probe
from mse_lab.scores.score_block import score_block
from mse_lab.scores.scoring_plan import find_plan
from plain_scores import PROMPT, random_reference, some_completions

CLOSED, NORM = "closed form", "affine in each entry"


def rows_of(policy):
    """Give a plan's lines: module, its parameters, rule."""
    return [
        (module, " ".join(answer.own), answer.rule.name)
        for module, answer in find_plan(policy).items()
    ]


def attention(layer):
    """Lines of Qwen's attention, biases beside three of the matrices."""
    return [
        *((f"{layer}.self_attn.{name}_proj", "weight bias", CLOSED) for name in "qkv"),
        (f"{layer}.self_attn.o_proj", "weight", CLOSED),
    ]


def mlp(layer):
    names = ("gate", "up", "down")
    return [(f"{layer}.mlp.{name}_proj", "weight", CLOSED) for name in names]


def norms(layer):
    names = ("input_layernorm", "post_attention_layernorm")
    return [(f"{layer}.{name}", "weight", NORM) for name in names]


def qwen2(first_mlp):
    first, second = "model.layers.0", "model.layers.1"
    return [
        ("model.embed_tokens", "weight", CLOSED),
        *attention(first),
        *first_mlp,
        *norms(first),
        *attention(second),
        *mlp(second),
        *norms(second),
        ("model.norm", "weight", NORM),
        ("lm_head", "weight", CLOSED),
    ]


def test_plan_of_a_model():
    assert rows_of(random_policy(tied=False)) == qwen2(mlp("model.layers.0"))


def test_both_uses_of_a_tied_matrix_answer_for_one_parameter():
    policy = random_policy(tied=True)
    assert rows_of(policy) == qwen2(mlp("model.layers.0"))
    plan = find_plan(policy)
    named = [plan[module].own for module in ("model.embed_tokens", "lm_head")]
    assert named == [{"weight": "model.embed_tokens.weight"}] * 2


def test_an_adapters_matrices_answer_alone(tmp_path):
    base = write_checkpoint(tmp_path / "base")
    adapter = write_adapter(base, tmp_path / "adapter")
    values = {
        "model": {"path": str(base), "adapter": str(adapter), "device": "cpu"},
        "prompts": {"source": "prompts.jsonl"},
    }
    policy = load_policy(parse_probe(values, "probe"), tmp_path)
    expected = [
        (f"{layer}.{module}_proj.lora_{side}.default", "weight", CLOSED)
        for layer in ("model.layers.0", "model.layers.1")
        for module in (
            *(f"self_attn.{name}" for name in "qkvo"),
            *(f"mlp.{name}" for name in ("gate", "up", "down")),
        )
        for side in "AB"
    ]
    assert rows_of(policy) == expected


def test_fused_experts_and_their_router():
    rows = rows_of(random_policy("qwen3_moe"))
    assert [row for row in rows if ".0.mlp" in row[0]] == [
        ("model.layers.0.mlp.experts", "gate_up_proj down_proj", "fused experts"),
        ("model.layers.0.mlp.gate", "weight", "run again together"),
    ]


ALONE = "run again one by one"
EXPERTS = " ".join(f"experts.{n}.{one}" for n in range(4) for one in ("weight", "bias"))


@pytest.mark.parametrize(
    ("module", "rows"),
    [
        (linear, [("", "weight bias", CLOSED)]),
        (Bypass, [("", "inner.weight inner.bias", ALONE)]),
        (Experts, [("", EXPERTS, ALONE), (".router", "weight bias", "run again together")]),
    ],
    ids=["linear", "used without a call", "experts in a list"],
)
def test_plan_with_a_foreign_module(module, rows):
    expected = [(f"model.layers.0.mlp{row[0]}", *row[1:]) for row in rows]
    assert rows_of(policy_with(module)) == qwen2(expected)


def counted(policy):
    """Count forward and backward passes of the whole model from here on."""
    passes = {"forward": 0, "backward": 0}

    def forward(*_):
        passes["forward"] += 1

    def backward(*_):
        passes["backward"] += 1

    policy.model.register_forward_pre_hook(forward)
    policy.model.model.norm.register_full_backward_hook(backward)
    return passes


@pytest.mark.parametrize("module", [linear, Bypass, Experts])
def test_scoring_takes_one_forward_and_one_backward_pass(module):
    """Once the plan is made: whatever stands in a layer's place."""
    policy = policy_with(module)
    completions, reference = some_completions(policy, 3), random_reference(policy)
    plan = find_plan(policy)
    passes = counted(policy)
    for times in (1, 2):
        score_block(policy, PROMPT, completions, reference)
        assert passes == {"forward": times, "backward": times}
    assert find_plan(policy) is plan


def test_a_policy_with_other_parameters_has_another_plan():
    policy = random_policy()
    plan = find_plan(policy)
    chosen = {name: one for name, one in policy.parameters.items() if "mlp" in name}
    other = find_plan(dataclasses.replace(policy, parameters=chosen))
    named = {name for answer in other.values() for name in answer.own.values()}
    assert named == set(chosen)
    assert find_plan(policy) is plan
