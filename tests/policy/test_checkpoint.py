"""What cannot be loaded or measured is refused at once, in one line with its remedy."""

import json
import pickle
import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import run_mse
from models import SIZES, random_model, randomise, write_checkpoint
from mse_lab.errors import InputError
from mse_lab.policy import checkpoint as module
from spoilt_checkpoints import change_config, load


def drop_weight(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def truncate(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:400])


def drop_tokenizer(folder):
    for path in folder.glob("tokenizer*"):
        path.unlink()


def bring_code(folder):
    change_config(
        folder, model_type="new", auto_map={"AutoConfig": "code.C", "AutoModel": "code.M"}
    )
    (folder / "code.py").write_text("raise SystemExit('run')\n")


def become_an_adapter(folder):
    (folder / "config.json").rename(folder / "adapter_config.json")


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def become_a_pickle(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(shutil.rmtree))


def lose_the_numbers(folder):
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][:] = torch.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


NESTED = b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"

SPOILT = {
    "config": (write("config.json", b"{"), "config.json cannot be .*valid JSON"),
    "nested": (write("config.json", NESTED), "config.json cannot be loaded: .*recursion"),
    "division": (lambda f: change_config(f, num_key_value_heads=0), "the model cannot"),
    "forward": (lambda f: change_config(f, return_dict=False), "the model .*tuple"),
    "end token": (
        write("generation_config.json", b'{"eos_token_id": ["x"]}'),
        "eos_token_id = 'x' is not a token id; correct generation_config.json",
    ),
    "cut generation": (
        write("generation_config.json", b'{"eos_token_id": 3'),
        "the model cannot .*generation_config.json.*valid JSON",
    ),
    "pickle": (become_a_pickle, "holds more than weights; give .* as .safetensors"),
    "panic": (
        lambda f: change_config(
            f,
            "tokenizer.json",
            normalizer={"type": "Precompiled", "precompiled_charsmap": ""},
        ),
        "the tokenizer .*charsmap",
    ),
    "no numbers": (lose_the_numbers, "its logits are NaN"),
    "no config": (lambda f: (f / "config.json").unlink(), "no config.json in it"),
    "adapter": (become_an_adapter, "as model.adapter"),
    "weight missing": (drop_weight, "1 weights are missing.*mlp.up_proj.weight"),
    "other shape": (
        lambda f: change_config(f, intermediate_size=12),
        "6 weights are missing or of another shape",
    ),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "no file named model"),
    "truncated": (truncate, "the model cannot be loaded: .*header"),
    "no tokenizer": (drop_tokenizer, "no tokenizer in it"),
    "broken tokenizer": (write("tokenizer.json", b"{"), "the tokenizer cannot be loaded"),
    "unknown type": (lambda f: change_config(f, model_type="new"), "model type `new`"),
    "own code": (bring_code, "brings code of its own, which is not run"),
    "quantised": (
        lambda f: change_config(f, quantization_config={"quant_method": "gptq", "bits": 4}),
        "quantised.*set model.adapter",
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_checkpoint_is_refused_in_one_line(copy, name):
    spoil, expected = SPOILT[name]
    spoil(copy)
    with pytest.raises(InputError, match=expected) as refused:
        load(copy)
    assert str(refused.value).startswith(f"model.path = {copy}: ")
    assert "; " in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "how",
    [
        {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False},
        {"quant_method": "gptq", "bits": 4},
    ],
    ids=lambda how: how["quant_method"],
)
def test_an_adapter_on_other_quantised_weights_is_refused(copy, how):
    """Eight bits round activations by the batch: no completion has its own log pi."""
    change_config(copy, quantization_config=how)
    with pytest.raises(InputError, match=r"no exact score; .*four bits of bitsandbytes"):
        load(copy, adapter={"rank": 2})


def small(config_class, **sizes):
    return config_class(**{**SIZES, "vocab_size": 4, "pad_token_id": None, **sizes})


def masked():
    model = transformers.BertLMHeadModel(small(transformers.BertConfig))
    randomise(model)
    return model


def encoder_decoder():
    config = transformers.T5Config(
        d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=4
    )
    return transformers.T5ForConditionalGeneration(config)


def classifier():
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    return transformers.ViTForImageClassification(config)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (masked, "BertLMHeadModel is not causal"),
        (encoder_decoder, "t5 is an encoder-decoder"),
        (classifier, "vit is not a causal language model"),
    ],
    ids=["masked", "encoder-decoder", "classifier"],
)
def test_a_model_that_cannot_be_measured_is_refused(copy, make, expected):
    (copy / "model.safetensors").unlink()
    make().save_pretrained(copy)
    with pytest.raises(InputError, match=expected) as refused:
        load(copy)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "llama", "gemma2", "gpt2"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_causal_models_are_taken(copy, architecture, dtype):
    (copy / "model.safetensors").unlink()
    random_model(architecture).save_pretrained(copy)
    assert load(copy, dtype=dtype).model.dtype == getattr(torch, dtype)


@pytest.mark.parametrize("architecture", ["mamba", "bamba", "lfm2", "openai-gpt"])
def test_a_model_without_a_cache_to_share_is_measured(copy, write_probe, architecture):
    """From end to end: what it draws is what is differentiated, as the checks say."""
    (copy / "model.safetensors").unlink()
    random_model(architecture, vocabulary=4).save_pretrained(copy)
    path = write_probe(model={"path": str(copy), "device": "cpu"})
    out = path.parent / "out"
    assert run_mse.main(["run", str(path), "--out", str(out)]) == 0
    checks = json.loads((out / "small/checks.json").read_text())["checks"]
    [law] = [one for one in checks if one["name"].startswith("drawn law equals")]
    assert law["ok"] is True


def test_weights_outside_the_devices_are_refused(copy, monkeypatch):
    accelerate = transformers.integrations.accelerate
    pytest.importorskip("accelerate", reason="model.device_map needs accelerate")
    monkeypatch.setattr(accelerate, "get_max_memory", lambda *_: {"cpu": 100})
    with pytest.raises(InputError, match=r"does not fit on the devices.*bfloat16"):
        load(copy, device="auto", device_map="auto")


def test_a_map_over_one_device_is_the_device(copy):
    pytest.importorskip("accelerate", reason="model.device_map needs accelerate")
    policy = load(copy, device="auto", device_map="auto")
    if not torch.cuda.is_available():
        assert policy.device.type == "cpu"
    assert not any(parameter.is_meta for parameter in policy.model.parameters())


def test_a_tied_head_that_came_apart_is_refused(copy):
    policy = load(copy)
    policy.model.lm_head.weight = torch.nn.Parameter(policy.model.lm_head.weight.clone())
    location = module.Location("model.path", "copy", local=copy)
    with pytest.raises(InputError, match="separate on two devices"):
        module._refuse_scattered(location, policy.model)


def test_a_precision_that_a_device_lacks_is_refused(copy, monkeypatch):
    monkeypatch.setattr("mse_lab.policy.policy.pick_device", lambda _: torch.device("mps"))
    with pytest.raises(InputError, match=r"float64: MPS has none; use float32"):
        load(copy, dtype="float64")


def test_without_accelerate_one_line_says_what_to_install(copy, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(InputError, match=r"pip install '\.\[measure\]' in the clone"):
        load(copy, device="auto", device_map="auto")


def test_write_checkpoint_is_not_changed_by_loading(tmp_path):
    folder = write_checkpoint(tmp_path / "c")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    load(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
