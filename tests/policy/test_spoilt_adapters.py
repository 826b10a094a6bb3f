"""Adapters that cannot be used are refused in one line, and the remedies work."""

import json
import pickle
import shutil
import sys
import warnings
from dataclasses import replace

import pytest
import torch
import transformers

from mse_lab.errors import InputError
from mse_lab.policy.policy import load_policy
from mse_lab.probe.probe_files import parse_probe
from plain_scores import PROMPT
from saved_adapters import check_scores, load, save_adapter

peft = pytest.importorskip("peft", reason="adapters need the extra lora")


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
    "cut weights": (
        lambda f: (f / "adapter_model.safetensors").write_bytes(b"x" * 20),
        "the adapter cannot be loaded: .*header too large",
    ),
    "pickle": (become_a_pickle, "a file of weights is damaged, or holds more than weights"),
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


def test_an_adapter_that_is_nowhere_is_refused(bases, tmp_path):
    with pytest.raises(InputError, match=r"model.adapter = no/where/x: no such folder"):
        load(bases["qwen2"], "no/where/x")


def test_without_peft_one_line_says_what_to_install(bases, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(InputError, match=r"model.adapter.*pip install '\.\[lora\]' in"):
        load(bases["qwen2"], {"rank": 2})
