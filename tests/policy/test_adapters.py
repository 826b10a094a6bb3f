"""LoRA: scores equal autograd in every parameter of the adapter, saved or fresh."""

import shutil

import pytest
import torch
import transformers

from models import random_model
from mse_lab.errors import InputError
from mse_lab.policy.policy import load_policy, select_parameters
from mse_lab.probe.probe_files import parse_probe
from plain_scores import PROMPT, assert_scores, some_completions
from saved_adapters import check_scores, load, save_adapter

peft = pytest.importorskip("peft", reason="adapters need the extra lora")


# Norms and softmax are computed in float32 whatever the model's precision, in the
# reference as in autograd; scores and autograd then differ by rounding of the dtype.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("architecture", ["qwen2", "llama", "gpt2"])
def test_scores_of_a_fresh_adapter_equal_autograd(bases, architecture, dtype):
    policy = load(bases[architecture], {"rank": 2, "alpha": 3}, dtype=dtype)
    assert {parameter.dtype for parameter in policy.parameters.values()} == {
        getattr(torch, dtype)
    }
    random_trained_values = torch.Generator().manual_seed(4)
    for name, parameter in policy.parameters.items():
        assert "lora_A" in name or "lora_B" in name
        parameter.data.normal_(generator=random_trained_values).mul_(0.4)
    check_scores(policy, TOLERANCE[dtype])


SAVED = {
    "plain": {},
    "dropout": {"lora_dropout": 0.5},
    "all biases": {"bias": "all"},
    "own bias": {"lora_bias": True, "target_modules": ["q_proj", "v_proj"]},
    "rank-stabilised": {"use_rslora": True},
    "head and embedding saved": {"modules_to_save": ["embed_tokens", "lm_head"]},
    "norm saved": {"modules_to_save": ["norm"]},
    "beside the head": {"target_modules": ["q_proj", "lm_head"]},
}


@pytest.mark.parametrize("name", SAVED)
@pytest.mark.parametrize("architecture", ["qwen2", "llama", "gpt2"])
def test_scores_of_a_saved_adapter_equal_autograd(bases, tmp_path, architecture, name):
    base, settings = bases[architecture], dict(SAVED[name])
    if name == "own bias" and architecture == "llama":
        settings["lora_bias"] = False  # PEFT wants a bias beside it
    expected = save_adapter(base, tmp_path, **settings)
    policy = load(base, tmp_path)
    found = policy.model(torch.tensor([PROMPT])).logits
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    check_scores(policy, 1e-12)


def test_an_adapter_left_out_is_seen(bases, tmp_path):
    """Negative control: without the adapter the logits are others."""
    expected = save_adapter(bases["qwen2"], tmp_path)
    policy = load(bases["qwen2"], tmp_path)
    for name, parameter in policy.parameters.items():
        if "lora_B" in name:
            parameter.data.zero_()
    found = policy.model(torch.tensor([PROMPT])).logits
    assert (found - expected).abs().max() > 0.1


def test_an_adapter_on_a_coarse_base_keeps_float32(bases, tmp_path):
    """PEFT trains float32 adapters beside bfloat16 weights; so they are measured."""
    save_adapter(bases["qwen2"], tmp_path)
    policy = load(bases["qwen2"], tmp_path, dtype="bfloat16")
    assert policy.model.dtype == torch.bfloat16
    dtypes = {parameter.dtype for parameter in policy.parameters.values()}
    assert dtypes == {torch.float32}
    assert_scores(policy, some_completions(policy), 1e-5)


@pytest.mark.filterwarnings("ignore")
def test_an_adapter_on_four_bit_weights(bases, tmp_path):
    pytest.importorskip("bitsandbytes", reason="quantised weights need bitsandbytes")
    sizes = {"hidden_size": 64, "intermediate_size": 64}
    random_model("llama", tied=False, **sizes).save_pretrained(tmp_path / "whole")
    config = transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "whole",
        quantization_config=config,
        device_map={"": "cpu"},
        dtype=torch.float32,
    )
    model.save_pretrained(tmp_path)
    for path in bases["llama"].glob("tokenizer*"):
        shutil.copy(path, tmp_path)
    policy = load(tmp_path, {"rank": 2}, dtype="float32")
    generator = torch.Generator().manual_seed(4)
    for parameter in policy.parameters.values():
        parameter.data.normal_(generator=generator).mul_(0.4)
    check_scores(policy, 1e-4)


def test_a_fresh_adapter_is_drawn_from_the_seed_alone(bases):
    state = torch.get_rng_state()
    first = load(bases["qwen2"], {"rank": 2})
    torch.randn(7)
    second = load(bases["qwen2"], {"rank": 2})
    other = load(bases["qwen2"], {"rank": 2}, seed=1)
    for name, parameter in first.parameters.items():
        assert torch.equal(parameter, second.parameters[name])
        if "lora_B" in name:
            assert not parameter.any()
        else:
            bound = parameter.shape[1] ** -0.5
            assert 0.5 * bound < parameter.abs().max() <= bound
            assert not torch.equal(parameter, other.parameters[name])
    torch.set_rng_state(state)
    assert first.identity["adapter"] == "drawn from seed 0"


def test_torchs_generator_is_left_alone(bases, tmp_path):
    save_adapter(bases["qwen2"], tmp_path)
    before = torch.get_rng_state()
    load(bases["qwen2"], {"rank": 2})
    load(bases["qwen2"], tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_fresh_adapter_leaves_the_policy_as_it_is(bases):
    probe = {"model": {"path": str(bases["qwen2"]), "dtype": "float64", "device": "cpu"}}
    plain = load_policy(
        parse_probe({**probe, "prompts": {"source": "x"}}, "probe"), bases["qwen2"]
    )
    adapted = load(bases["qwen2"], {"rank": 2})
    tokens = torch.tensor([PROMPT])
    assert torch.equal(plain.model(tokens).logits, adapted.model(tokens).logits)
    assert type(adapted.model) is type(plain.model)
    assert set(plain.model.state_dict()) & set(adapted.parameters) == set()


def test_targets_by_name(bases):
    policy = load(bases["qwen2"], {"rank": 3, "target": ["q_proj", "1.mlp.up_proj"]})
    modules = {name.partition(".lora_")[0] for name in policy.parameters}
    assert modules == {
        "model.layers.0.self_attn.q_proj",
        "model.layers.1.self_attn.q_proj",
        "model.layers.1.mlp.up_proj",
    }
    assert {min(parameter.shape) for parameter in policy.parameters.values()} == {3}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["q_proj", "k_prj"], "k_prj is no linear layer; did you mean k_proj?"),
        (["embed_tokens"], "embed_tokens is no linear layer"),
        (["layers"], "layers is no linear layer"),
    ],
    ids=["misspelt", "embedding", "no module of its own"],
)
def test_a_target_that_is_no_linear_layer_is_refused(bases, target, expected):
    with pytest.raises(InputError, match=expected):
        load(bases["qwen2"], {"target": target})


def test_patterns_pick_among_the_adapters_parameters(bases):
    policy = load(bases["qwen2"], {"rank": 2}, parameters=["lora_B", r"layers\.0\.mlp"])
    assert len(policy.parameters) == 14 + 3
    check = [name for name in policy.parameters if "lora_A" in name]
    assert all("layers.0.mlp" in name for name in check)
    with pytest.raises(InputError, match=r"matches no parameter of the adapter; .*lora_A"):
        load(bases["qwen2"], {"rank": 2}, parameters=["embed_tokens"])


def test_the_pattern_that_leaves_a_module_out_works(bases, tmp_path):
    """A refusal of the scores names `parameters: ['^(?!module[.])']`, PEFT's names too."""
    save_adapter(bases["qwen2"], tmp_path)
    policy = load(bases["qwen2"], tmp_path)
    module = "model.layers.0.self_attn.q_proj.lora_A.default"
    chosen = select_parameters(policy.model, [f"^(?!{module}[.])"], policy.parameters)
    assert set(policy.parameters) - set(chosen) == {f"{module}.weight"}


def test_the_adapter_is_part_of_the_identity(bases, tmp_path):
    save_adapter(bases["qwen2"], tmp_path)
    identity = load(bases["qwen2"], tmp_path).identity
    assert set(identity) == {"model", "adapter"}
    save_adapter(bases["qwen2"], tmp_path, lora_alpha=8)
    changed = load(bases["qwen2"], tmp_path).identity
    assert changed["model"] == identity["model"]
    assert changed["adapter"] != identity["adapter"]
