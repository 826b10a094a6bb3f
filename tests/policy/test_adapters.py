"""LoRA: scores equal autograd in every parameter of the adapter, saved or fresh."""

import json
import pickle
import shutil
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

from models import random_model
from mse_lab.errors import InputError
from mse_lab.policy.policy import load_policy, select_parameters
from mse_lab.probe.probe_files import parse_probe
from mse_lab.scores.reference import weighted_gradient
from mse_lab.scores.score_block import score_block
from plain_scores import (
    PROMPT,
    autograd_scores,
    joined,
    random_reference,
    relative_gap,
    some_completions,
)

peft = pytest.importorskip("peft", reason="adapters need the extra lora")

NAMES = {"q_proj": "c_attn", "v_proj": "c_proj", "embed_tokens": "wte", "norm": "ln_f"}

# Norms and softmax are computed in float32 whatever the model's precision, in the
# reference as in autograd; scores and autograd then differ by rounding of the dtype.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}


@pytest.fixture(scope="module")
def bases(tmp_path_factory, checkpoint):
    """Checkpoints of three architectures, GPT-2's linear layers stored the other way."""
    folders = {}
    for architecture, tied in (("qwen2", True), ("llama", False), ("gpt2", True)):
        folder = tmp_path_factory.mktemp(architecture)
        random_model(architecture, tied=tied).save_pretrained(folder)
        for path in checkpoint.glob("tokenizer*"):
            shutil.copy(path, folder)
        folders[architecture] = folder
    return folders


def random_trained(model, seed=3):
    """Draw what is trained, B included, so that no gradient is zero."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.requires_grad:
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.data = (0.4 * noise).to(parameter.dtype)


def save_adapter(base, folder, **settings):
    """Save an adapter of a base; give the logits that PEFT's own model has with it."""
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64)
    if model.config.model_type == "gpt2":
        for key in ("target_modules", "modules_to_save"):
            if isinstance(settings.get(key), list):
                settings[key] = [NAMES.get(name, name) for name in settings[key]]
        settings["fan_in_fan_out"] = True
    defaults = {"r": 2, "lora_alpha": 4, "target_modules": "all-linear"}
    config = peft.LoraConfig(task_type="CAUSAL_LM", **{**defaults, **settings})
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        wrapped = peft.get_peft_model(model, config).eval()
        random_trained(wrapped)
        wrapped.save_pretrained(folder)
        return wrapped(torch.tensor([PROMPT])).logits


def load(base, adapter, parameters="all", seed=0, **model):
    values = {"path": str(base), "device": "cpu", "dtype": "float64", **model}
    values["adapter"] = adapter if isinstance(adapter, dict) else str(adapter)
    probe = parse_probe(
        {
            "model": values,
            "prompts": {"source": "x"},
            "sampling": {"temperature": 0.8},
            "parameters": parameters,
            "seed": seed,
        },
        "probe",
    )
    return replace(load_policy(probe, base), end_tokens=(1, 2))


def check_scores(policy, bound):
    completions, reference = some_completions(policy), random_reference(policy)
    expected = autograd_scores(policy, completions)
    found = score_block(policy, PROMPT, completions, reference)
    assert set(found.norms2) == set(policy.parameters)
    assert relative_gap(found.gram_NN, expected @ expected.T) < bound
    assert relative_gap(found.products_N, expected @ joined(reference)) < bound
    for name, norms2_N in found.norms2.items():
        assert (norms2_N > 0).any(), name
    gradient, _ = weighted_gradient(policy, PROMPT, completions, np.ones(len(completions)))
    summed = torch.cat([gradient[name].flatten() for name in policy.parameters])
    assert relative_gap(summed.double().numpy(), expected.sum(0)) < max(bound, 1e-6)


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
    completions, reference = some_completions(policy), random_reference(policy)
    expected = autograd_scores(policy, completions)
    found = score_block(policy, PROMPT, completions, reference)
    assert relative_gap(found.gram_NN, expected @ expected.T) < 1e-5
    assert relative_gap(found.products_N, expected @ joined(reference)) < 1e-5


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
        (["q_proj", "k_prj"], "k_prj is not a linear layer; did you mean k_proj?"),
        (["embed_tokens"], "embed_tokens is not a linear layer"),
        (["layers"], "layers is not a linear layer"),
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


REFUSED = {
    "DoRA": ({"use_dora": True}, "DoraLinearVariant"),
    "embedding": ({"target_modules": ["embed_tokens"]}, "Embedding layer"),
    "tokens": ({"trainable_token_indices": [1]}, "TrainableTokensWrapper"),
    "parameters": (
        {"target_modules": [], "target_parameters": ["q_proj.weight"]},
        "ParamWrapper",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_exact_score_is_refused_by_name(bases, tmp_path, name):
    settings, expected = REFUSED[name]
    save_adapter(bases["qwen2"], tmp_path, **settings)
    with pytest.raises(InputError, match=f"no exact score for {expected}.*merge") as why:
        load(bases["qwen2"], tmp_path)
    assert "\n" not in str(why.value)


def test_the_remedy_of_a_refused_adapter_works(bases, tmp_path):
    """DoRA merged into its base is a checkpoint like any other."""
    expected = save_adapter(bases["qwen2"], tmp_path / "dora", use_dora=True)
    base = transformers.AutoModelForCausalLM.from_pretrained(
        bases["qwen2"], dtype=torch.float64
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = peft.PeftModel.from_pretrained(base, tmp_path / "dora")
        wrapped.merge_and_unload().save_pretrained(tmp_path / "merged")
    for path in bases["qwen2"].glob("tokenizer*"):
        shutil.copy(path, tmp_path / "merged")
    values = {"path": str(tmp_path / "merged"), "dtype": "float64", "device": "cpu"}
    probe = parse_probe({"model": values, "prompts": {"source": "x"}}, "probe")
    policy = replace(load_policy(probe, tmp_path), end_tokens=(1, 2))
    found = policy.model(torch.tensor([PROMPT])).logits
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    check_scores(policy, 1e-5)


def change_settings(folder, **changes):
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def become_a_pickle(folder):
    (folder / "adapter_model.safetensors").unlink()
    (folder / "adapter_model.bin").write_bytes(pickle.dumps(shutil.rmtree, 2))


SPOILT = {
    "other kind": (
        lambda f: change_settings(f, peft_type="PREFIX_TUNING"),
        "a PREFIX_TUNING adapter; give a LoRA adapter",
    ),
    "unknown kind": (lambda f: change_settings(f, peft_type="NEW"), "cannot be loaded"),
    "other modules": (
        lambda f: change_settings(f, target_modules=["c_attn"]),
        "cannot be loaded: .*c_attn.*whole adapter of model.path",
    ),
    "fewer modules": (
        lambda f: change_settings(f, target_modules=["q_proj"]),
        "0 of its weights are missing and 24 do not belong to model.path",
    ),
    "more modules": (
        lambda f: change_settings(f, target_modules=["q_proj", "lm_head"]),
        "2 of its weights are missing and 24",
    ),
    "other rank": (lambda f: change_settings(f, r=3), "cannot be loaded: .*size mismatch"),
    "no weights": (
        lambda f: (f / "adapter_model.safetensors").unlink(),
        "no adapter_model.safetensors in it",
    ),
    "no configuration": (
        lambda f: (f / "adapter_config.json").unlink(),
        "no adapter_config.json in it",
    ),
    "broken": (
        lambda f: (f / "adapter_config.json").write_text("{"),
        "adapter_config.json cannot be loaded: Expecting",
    ),
    "kind of value": (
        lambda f: change_settings(f, r="2"),
        "the adapter cannot be loaded: ",
    ),
    "cut weights": (
        lambda f: (f / "adapter_model.safetensors").write_bytes(b"x" * 20),
        "the adapter cannot be loaded: .*header too large",
    ),
    "pickle": (
        become_a_pickle,
        "a file of weights is damaged, or holds more than weights",
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_adapter_is_refused_in_one_line(bases, tmp_path, name):
    spoil, expected = SPOILT[name]
    save_adapter(bases["qwen2"], tmp_path)
    spoil(tmp_path)
    with pytest.raises(InputError, match=expected) as refused:
        load(bases["qwen2"], tmp_path)
    assert str(refused.value).startswith(f"model.adapter = {tmp_path}: ")
    assert "\n" not in str(refused.value)


def test_an_adapter_of_another_base_is_refused(bases, tmp_path):
    save_adapter(bases["gpt2"], tmp_path)
    with pytest.raises(InputError, match=r"whole adapter of model.path"):
        load(bases["qwen2"], tmp_path)


def test_an_adapter_that_is_nowhere_is_refused(bases, tmp_path):
    with pytest.raises(InputError, match=r"model.adapter = no/where/x: no such folder"):
        load(bases["qwen2"], "no/where/x")


def test_the_adapter_is_part_of_the_identity(bases, tmp_path):
    save_adapter(bases["qwen2"], tmp_path)
    identity = load(bases["qwen2"], tmp_path).identity
    assert set(identity) == {"model", "adapter"}
    save_adapter(bases["qwen2"], tmp_path, lora_alpha=8)
    changed = load(bases["qwen2"], tmp_path).identity
    assert changed["model"] == identity["model"]
    assert changed["adapter"] != identity["adapter"]


def test_without_peft_one_line_says_what_to_install(bases, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(InputError, match=r"model.adapter.*pip install 'mse_lab\[lora\]'"):
        load(bases["qwen2"], {"rank": 2})
