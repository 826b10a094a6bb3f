"""LoRA: scores equal autograd in every parameter of the adapter; else one line says why."""

import shutil
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

from models import become_a_pickle, config, random_model, remove, write
from mse_lab.config.probe_files import parse_probe
from mse_lab.errors import InputError
from mse_lab.policy.policy import load_policy, select_parameters
from mse_lab.scores.reference import weighted_gradient
from mse_lab.scores.scoring_plan import missing_rule
from plain_scores import (
    PROMPT,
    assert_scores,
    joined,
    plain_scores,
    relative_gap,
    some_completions,
)

peft = pytest.importorskip("peft", reason="adapters need the extra lora")


@pytest.fixture(scope="module")
def bases(tmp_path_factory, checkpoint):
    """Checkpoints of three architectures, GPT-2's linear layers stored the other way."""
    folders = {}
    for architecture, tied in (("qwen2", True), ("llama", False), ("gpt2", True)):
        folder = folders[architecture] = tmp_path_factory.mktemp(architecture)
        random_model(architecture, tied=tied).save_pretrained(folder)
        copy_tokenizer(checkpoint, folder)
    return folders


@pytest.fixture
def base(bases):
    return bases["qwen2"]


def copy_tokenizer(source, folder):
    for path in source.glob("tokenizer*"):
        shutil.copy(path, folder)


def load(base, adapter, dtype="float64", **probe):
    model = {"path": str(base), "device": "cpu", "dtype": dtype}
    if adapter is not None:
        model["adapter"] = adapter if isinstance(adapter, dict) else str(adapter)
    own = {"prompts": {"source": "x"}, "sampling": {"temperature": 0.8}}
    policy = load_policy(parse_probe({"model": model, **own, **probe}, "probe"), base)
    return replace(policy, end_tokens=(1, 2))


def randomise_trained(parameters):
    """Draw what is trained, B included, so that no gradient is zero."""
    generator = torch.Generator().manual_seed(3)
    for parameter in parameters:
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.data = (0.4 * noise).to(parameter.dtype)


def save_adapter(base, folder, **settings):
    """Save an adapter of a base; give the logits that PEFT's own model has with it."""
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64)
    defaults = {"r": 2, "lora_alpha": 4, "target_modules": "all-linear"}
    defaults["fan_in_fan_out"] = model.config.model_type == "gpt2"
    config = peft.LoraConfig(task_type="CAUSAL_LM", **{**defaults, **settings})
    with warnings.catch_warnings(action="ignore"), torch.no_grad():
        wrapped = peft.get_peft_model(model, config).eval()
        randomise_trained(one for one in wrapped.parameters() if one.requires_grad)
        wrapped.save_pretrained(folder)
        return wrapped(torch.tensor([PROMPT])).logits


def check_scores(policy, bound):
    completions = some_completions(policy)
    truth = plain_scores(policy, completions)
    assert_scores(policy, completions, bound, truth=truth)
    gradient, _ = weighted_gradient(policy, PROMPT, completions, np.ones(len(completions)))
    assert all(part.any() for part in gradient.values())
    assert relative_gap(joined(gradient), truth[0].sum(0)) < max(bound, 1e-6)


# Norms and softmax are computed in float32 whatever the model's precision, in the reference
# as in autograd; scores and autograd then differ by rounding of the dtype.
@pytest.mark.parametrize(
    ("architecture", "dtype", "bound"),
    [("qwen2", "float32", 2e-5), ("llama", "float64", 1e-12), ("gpt2", "float64", 1e-12)],
)
def test_scores_of_a_fresh_adapter_equal_autograd(bases, architecture, dtype, bound):
    policy = load(bases[architecture], {"rank": 2, "alpha": 3}, dtype)
    assert {one.dtype for one in policy.parameters.values()} == {getattr(torch, dtype)}
    assert all("lora_A" in name or "lora_B" in name for name in policy.parameters)
    randomise_trained(policy.parameters.values())
    check_scores(policy, bound)


SAVED = {
    "plain": ("llama", {}),
    "plain, transposed": ("gpt2", {}),
    "dropout": ("qwen2", {"lora_dropout": 0.5}),
    "all biases": ("gpt2", {"bias": "all"}),
    "own bias": ("qwen2", {"lora_bias": True, "target_modules": ["q_proj", "v_proj"]}),
    "rank-stabilised": ("llama", {"use_rslora": True}),
    "head and embedding": ("qwen2", {"modules_to_save": ["embed_tokens", "lm_head"]}),
    "untied head": ("llama", {"modules_to_save": ["embed_tokens", "lm_head"]}),
    "norm saved": ("gpt2", {"modules_to_save": ["ln_f"]}),
    "beside the head": ("qwen2", {"target_modules": ["q_proj", "lm_head"]}),
}
# What has no rule is differentiated a completion at a time.
WITHOUT_RULE = {
    "DoRA": ("qwen2", {"use_dora": True}),
    "embedding": ("llama", {"target_modules": ["q_proj", "embed_tokens"]}),
    "tokens": ("llama", {"trainable_token_indices": [3, 4]}),
    "parameters": ("llama", {"target_modules": [], "target_parameters": ["q_proj.weight"]}),
}


@pytest.mark.parametrize("name", SAVED | WITHOUT_RULE)
def test_scores_of_a_saved_adapter_equal_autograd(bases, tmp_path, name):
    architecture, settings = (SAVED | WITHOUT_RULE)[name]
    expected = save_adapter(bases[architecture], tmp_path, **settings)
    policy = load(bases[architecture], tmp_path)
    found = policy.model(torch.tensor([PROMPT])).logits
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert (missing_rule(policy) is None) == (name in SAVED)
    check_scores(policy, 1e-12)
    for parameter in policy.parameters.values():
        parameter.data.zero_()
    assert (policy.model(torch.tensor([PROMPT])).logits - expected).abs().max() > 0.1


def test_an_adapter_on_a_coarse_base_keeps_float32(base, tmp_path):
    """PEFT trains float32 adapters beside bfloat16 weights; so they are measured."""
    save_adapter(base, tmp_path)
    policy = load(base, tmp_path, "bfloat16")
    assert policy.model.dtype == torch.bfloat16
    assert {one.dtype for one in policy.parameters.values()} == {torch.float32}
    assert_scores(policy, some_completions(policy), 1e-5)


@pytest.mark.filterwarnings("ignore")
def test_an_adapter_on_four_bit_weights(bases, tmp_path):
    pytest.importorskip("bitsandbytes", reason="quantised weights need bitsandbytes")
    sizes = {"hidden_size": 64, "intermediate_size": 64}
    random_model("llama", tied=False, **sizes).save_pretrained(tmp_path / "whole")
    config = transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32
    )
    transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "whole",
        quantization_config=config,
        device_map={"": "cpu"},
        dtype=torch.float32,
    ).save_pretrained(tmp_path)
    copy_tokenizer(bases["llama"], tmp_path)
    policy = load(tmp_path, {"rank": 2}, "float32")
    randomise_trained(policy.parameters.values())
    check_scores(policy, 1e-4)


def test_a_fresh_adapter_is_drawn_from_the_seed_alone(base):
    """It leaves torch's generator and the policy as they are."""
    state = torch.get_rng_state()
    first = load(base, {"rank": 2})
    assert torch.equal(torch.get_rng_state(), state)
    torch.randn(7)
    second, other = load(base, {"rank": 2}), load(base, {"rank": 2}, seed=1)
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
    plain, tokens = load(base, None), torch.tensor([PROMPT])
    assert torch.equal(plain.model(tokens).logits, first.model(tokens).logits)
    assert type(first.model) is type(plain.model)
    assert not set(plain.model.state_dict()) & set(first.parameters)


def test_targets_and_patterns_are_names(base):
    policy = load(base, {"rank": 3, "target": ["q_proj", "1.mlp.up_proj"]})
    assert {name.partition(".lora_")[0] for name in policy.parameters} == {
        "model.layers.0.self_attn.q_proj",
        "model.layers.1.self_attn.q_proj",
        "model.layers.1.mlp.up_proj",
    }
    assert {min(parameter.shape) for parameter in policy.parameters.values()} == {3}
    chosen = load(base, {"rank": 2}, parameters=["lora_B", r"layers\.0\.mlp"])
    assert len(chosen.parameters) == 14 + 3
    # A refusal of the scores names such a pattern, which leaves a module out.
    module = "model.layers.0.self_attn.q_proj.lora_A.default"
    some = select_parameters(policy.model, [f"^(?!{module}[.])"], policy.parameters)
    assert set(policy.parameters) - set(some) == {f"{module}.weight"}


def test_the_adapter_is_part_of_the_identity(base, tmp_path):
    save_adapter(base, tmp_path)
    before = load(base, tmp_path).identity
    save_adapter(base, tmp_path, lora_alpha=8)
    after = load(base, tmp_path).identity
    assert set(before) == {"model", "adapter"}
    assert {key for key in before if before[key] != after[key]} == {"adapter"}


UNUSABLE = {
    "misspelt": ({"target": ["k_prj"]}, {}, "k_prj is no linear.*did you mean k_proj"),
    "embedding": ({"target": ["embed_tokens"]}, {}, "embed_tokens is no linear layer"),
    "no module": ({"target": ["layers"]}, {}, "layers is no linear layer"),
    "nowhere": ("no/where/x", {}, "model.adapter = no/where/x: no such folder"),
    "pattern": ({"rank": 2}, {"parameters": ["embed_tokens"]},
                "matches no parameter of the adapter; .*lora_A"),
}  # fmt: skip


@pytest.mark.parametrize(("adapter", "probe", "line"), UNUSABLE.values(), ids=UNUSABLE)
def test_settings_that_name_nothing_are_refused(base, adapter, probe, line):
    with pytest.raises(InputError, match=line):
        load(base, adapter, **probe)


def test_without_peft_one_line_says_what_to_install(base, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(InputError, match=r"model.adapter.*pip install '\.\[lora\]' in"):
        load(base, {"rank": 2})


WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
SPOILT = {
    "activated": (config(CONFIG, alora_invocation_tokens=[1, 2]),
                  "a LORA adapter that does not work by its layers alone; give one"),
    "kind": (config(CONFIG, peft_type="PREFIX_TUNING"),
             "a PREFIX_TUNING adapter; give a LoRA"),
    "unknown kind": (config(CONFIG, peft_type="NEW"), "cannot be loaded"),
    "other modules": (config(CONFIG, target_modules=["c_attn"]),
                      "cannot be loaded: .*c_attn.*whole adapter of model.path"),
    "fewer modules": (config(CONFIG, target_modules=["q_proj"]),
                      "0 of its weights are missing and 24 do not belong to model.path"),
    "more modules": (config(CONFIG, target_modules=["q_proj", "lm_head"]),
                     "2 of its weights are missing and 24"),
    "other rank": (config(CONFIG, r=3), "cannot be loaded: .*size mismatch"),
    "no weights": (remove(WEIGHTS), f"no {WEIGHTS} in it"),
    "no configuration": (remove(CONFIG), f"no {CONFIG} in it"),
    "broken": (write(CONFIG, b"{"), f"{CONFIG} cannot be loaded: Expecting"),
    "cut": (write(WEIGHTS, b"x" * 20), "the adapter cannot .*header too large"),
    "pickle": (become_a_pickle(WEIGHTS, "adapter_model.bin"),
               "a file of weights is damaged, or holds more than"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "line"), SPOILT.values(), ids=SPOILT)
def test_an_adapter_that_cannot_be_measured_is_one_line(base, tmp_path, spoil, line):
    save_adapter(base, tmp_path)
    spoil(tmp_path)
    with pytest.raises(InputError, match=line) as refused:
        load(base, tmp_path)
    assert str(refused.value).startswith(f"model.adapter = {tmp_path}: ")
