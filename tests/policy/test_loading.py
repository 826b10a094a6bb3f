"""What is taken of a checkpoint or the Hub; what cannot be, in one line."""

import json
import os
import shutil
import sys

import huggingface_hub
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from models import (
    become_a_pickle,
    change_config,
    config,
    keep_sentencepiece_only,
    load,
    probe_of,
    random_policy,
    randomise,
    remove,
    write,
)
from mse_lab.data.location import Location, locate
from mse_lab.errors import InputError
from mse_lab.policy import checkpoint as loading
from mse_lab.policy.policy import load_policy, pick_device, select_parameters
from mse_lab.run.changes import identify_model
from mse_lab.scores.scoring_plan import missing_rule
from served_hub import COMMIT, NOWHERE, REFUSALS, ModelHub

# How a checkpoint is spoilt.
WEIGHTS = "model.safetensors"


def quantised(**how):
    return config(quantization_config=how)


def weights(change):
    def act(folder):
        values = load_file(folder / WEIGHTS)
        change(values)
        save_file(values, folder / WEIGHTS, {"format": "pt"})

    return act


SMALL = {
    "hidden_size": 8,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "vocab_size": 4,
}


def other(kind):
    """Put another kind of model in its place."""

    def act(folder):
        (folder / WEIGHTS).unlink()
        made = kind(kind.config_class(**SMALL))
        randomise(made)
        made.save_pretrained(folder)

    return act


def lengthen(name):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes() + b" ")


def cut(folder):
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:400])


def become_an_adapter(folder):
    (folder / "config.json").rename(folder / "adapter_config.json")


def bring_code(folder):
    code = {"AutoConfig": "code.C", "AutoModel": "code.M"}
    change_config(folder, model_type="new", auto_map=code)
    (folder / "code.py").write_text("raise SystemExit('run')\n")


END, END_TOKENS = "generation_config.json", b'{"eos_token_id": ["x"]}'
NESTED = b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"
CHARSMAP = {"type": "Precompiled", "precompiled_charsmap": ""}
SPOILT = {
    "config": (write("config.json", b"{"), "config.json cannot be .*valid JSON"),
    "nested": (write("config.json", NESTED), "config.json cannot be .*recursion"),
    "no config": (remove("config.json"), "no config.json in it"),
    "division": (config(num_key_value_heads=0), "the model cannot"),
    "forward": (config(return_dict=False), "the model .*tuple"),
    "end token": (write(END, END_TOKENS), "eos_token_id = 'x' is not a .*; correct gener"),
    "cut end tokens": (write(END, END_TOKENS[:9]), f"the model cannot .*{END}.*valid JSON"),
    "pickle": (become_a_pickle(WEIGHTS, "pytorch_model.bin"),
               "holds more than weights; give .* as .safetensors"),
    "NaN": (weights(lambda w: w["model.norm.weight"].fill_(torch.nan)), "logits are NaN"),
    "an adapter": (become_an_adapter, "as model.adapter"),
    "weight missing": (
        weights(lambda w: w.pop("model.layers.0.mlp.up_proj.weight")),
        "1 weights are missing.*mlp.up_proj.weight"),
    "other shape": (config(intermediate_size=12), "6 weights are missing or of another"),
    "no weights": (remove(WEIGHTS), "no file named model"),
    "cut": (cut, "the model cannot be loaded: .*header"),
    "no tokenizer": (remove("tokenizer*"), "no tokenizer in it"),
    "tokenizer": (write("tokenizer.json", b"{"), "the tokenizer cannot be loaded"),
    "panic": (config("tokenizer.json", normalizer=CHARSMAP), "the tokenizer .*charsmap"),
    "unknown type": (config(model_type="new"), "model type `new`"),
    "own code": (bring_code, "brings code of its own, which is not run"),
    "quantised": (quantised(quant_method="gptq", bits=4), "quantised.*set model.adapter"),
    "masked": (other(transformers.BertLMHeadModel), "BertLMHeadModel is not causal"),
    "encoder-decoder": (other(transformers.T5ForConditionalGeneration),
                        "t5 is no causal language model"),
    "classifier": (other(transformers.ViTForImageClassification),
                   "vit is no causal language model"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "line"), SPOILT.values(), ids=SPOILT)
def test_a_spoilt_checkpoint_is_one_line(copy, spoil, line):
    spoil(copy)
    with pytest.raises(InputError, match=f"^model.path = {copy}: (?=.*; ).*{line}"):
        missing_rule(load(copy))


EIGHT_BITS = {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}


@pytest.mark.parametrize(
    "how", [EIGHT_BITS, {"quant_method": "gptq"}], ids=["int8", "gptq"]
)
def test_an_adapter_on_other_quantised_weights_is_refused(copy, how):
    """Eight bits round activations by the batch: no completion has its own log pi."""
    quantised(**how)(copy)
    with pytest.raises(InputError, match=r"no exact score; .*four bits of bitsandbytes"):
        load(copy, adapter={"rank": 2})


def out_of_memory(*_, **__):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")


def converters_missing(patch, folder):
    keep_sentencepiece_only(folder)
    for name in ("is_sentencepiece_available", "is_tiktoken_available"):
        for module in (transformers.convert_slow_tokenizer, transformers.utils):
            patch.setattr(module, name, lambda: False, raising=False)


def no_memory(*_):
    return {"cpu": 100}


FROM_PRETRAINED = "transformers.AutoModelForCausalLM.from_pretrained"
MAX_MEMORY = "transformers.integrations.accelerate.get_max_memory"
AUTO = {"device": "auto", "device_map": "auto"}
# What the machine lacks, of a checkpoint that is whole.
LACKING = {
    "memory": (lambda patch, _: patch.setattr(FROM_PRETRAINED, out_of_memory),
               {}, "does not fit into memory.*bfloat16"),
    "converters": (converters_missing, {}, "pip install sentencepiece tiktoken"),
    "accelerate": (lambda patch, _: patch.setitem(sys.modules, "accelerate", None),
                   AUTO, r"pip install '\.\[measure\]' in the clone"),
    "devices": (lambda patch, _: patch.setattr(MAX_MEMORY, no_memory),
                AUTO, "does not fit on the devices.*bfloat16"),
    "cuda": (lambda patch, _: patch.setattr(torch.cuda, "device_count", lambda: 1),
             {"device": "cuda:1"}, "model.device = cuda:1: not on this machine"),
}  # fmt: skip


@pytest.mark.parametrize(("take_away", "settings", "line"), LACKING.values(), ids=LACKING)
def test_what_the_machine_lacks_is_one_line(copy, monkeypatch, take_away, settings, line):
    pytest.importorskip("accelerate", reason="model.device_map needs accelerate")
    take_away(monkeypatch, copy)
    with pytest.raises(InputError, match=line):
        load(copy, **settings)


def test_a_map_over_one_device_is_the_device(copy):
    pytest.importorskip("accelerate", reason="model.device_map needs accelerate")
    policy = load(copy, **AUTO)
    assert policy.devices == [policy.device] == [pick_device("auto")]
    assert not any(parameter.is_meta for parameter in policy.model.parameters())
    policy.model.lm_head.weight = torch.nn.Parameter(policy.model.lm_head.weight.clone())
    with pytest.raises(InputError, match="separate on two devices"):
        loading._refuse_scattered(Location("model.path", "copy", folder=copy), policy.model)


@pytest.mark.parametrize("error", [KeyError("ours"), KeyboardInterrupt()], ids=repr)
def test_an_error_of_ours_or_an_interruption_is_no_damage(copy, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("mse_lab.policy.policy.select_parameters", fail)
    with pytest.raises(type(error)):
        load(copy)
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", fail)
    with pytest.raises(KeyboardInterrupt if error.args == () else InputError):
        load(copy)


def test_what_is_taken_of_a_checkpoint(copy):
    """All end tokens and no other setting; nothing requires a gradient or is written."""
    generation = {"eos_token_id": [3, 1], "temperature": 0.1, "top_k": 1, "do_sample": True}
    (copy / "generation_config.json").write_text(json.dumps(generation))
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    policy = load(copy)
    assert (policy.end_tokens, policy.temperature) == ((0, 1, 3), 1.0)
    assert policy.device == policy.model.get_input_embeddings().weight.device
    assert set(policy.identity) == {"model"}
    assert not any(one.requires_grad for one in policy.model.parameters())
    assert not policy.model.training
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_parameters_are_chosen_by_patterns_and_a_tied_one_stands_once():
    model = random_policy(tied=True).model
    named = select_parameters(model, "all")
    assert "lm_head.weight" not in named
    assert len({id(parameter) for parameter in named.values()}) == len(named)
    message = "'moe' matches no parameter of the model; names look like model.embed_tokens"
    with pytest.raises(InputError, match=message):
        select_parameters(model, ["mlp", "moe"])


def test_a_folder_that_hides_another_is_refused_or_said(copy, tmp_path, monkeypatch):
    """Of the same content in two clones it is the same model."""
    here, root = tmp_path / "here/probes/m", tmp_path / "project/probes/m"
    for folder in (here, root):
        shutil.copytree(copy, folder)
    monkeypatch.chdir(tmp_path / "here")
    config, project = probe_of("probes/m"), tmp_path / "project"
    same = load_policy(config, project).identity
    change_config(here, rms_norm_eps=0.5)
    line = "^model.path = probes/m: two folders that differ, .*here.*project.*; give"
    for read in (load_policy, lambda probe, root: identify_model(probe.model, root)):
        with pytest.raises(InputError, match=line):
            read(config, project)
    assert load_policy(probe_of(root), project).identity == same
    monkeypatch.chdir(here)  # Where the project itself is no other model.
    assert load_policy(probe_of("."), project).identity != same
    monkeypatch.chdir(tmp_path / "here")
    (here / "config.json").unlink()
    with pytest.raises(InputError, match="or move probes/m, which hides the Hub"):
        load_policy(config, tmp_path)


# The Hub: asked once, and not at all where the cache has everything.


@pytest.fixture
def hub(monkeypatch, tmp_path, checkpoint):
    with ModelHub(monkeypatch, tmp_path / "cache", checkpoint) as served:
        yield served


@pytest.mark.parametrize("offline", [False, True], ids=["unreachable", "offline"])
def test_without_network_and_cache_the_line_says_how_to_fetch_it(
    hub, monkeypatch, tmp_path, offline
):
    hub.move(NOWHERE)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
    line = r"^model.path = slow/model: no such file or folder, and of the Hub: .* on the lo"
    with pytest.raises(InputError, match=line) as refused:
        load_policy(probe_of("slow/model", revision="v1"), tmp_path)
    assert str(refused.value).endswith("hf download slow/model --revision v1")


def test_a_hub_model_is_fetched_once_and_then_found_without_a_network(
    hub, monkeypatch, tmp_path
):
    config = probe_of("tiny/model")
    assert identify_model(config.model, tmp_path) == {"model": ""}
    assert load_policy(config, tmp_path).identity == {"model": COMMIT}
    with monkeypatch.context() as patched:  # A login that has run out does not matter.
        patched.setitem(REFUSALS, "tiny", (403, "GatedRepo"))
        assert load_policy(config, tmp_path).identity == {"model": COMMIT}
    hub.move(NOWHERE)
    hub.asked.clear()
    for revision in (None, "main", COMMIT):
        found = load_policy(probe_of("tiny/model", revision=revision), tmp_path)
        assert found.identity == {"model": COMMIT}
        assert identify_model(config.model, tmp_path) == {"model": COMMIT}
    assert hub.asked == []
    with pytest.raises(InputError, match=r"of the Hub: .*--revision v1"):
        load_policy(probe_of("tiny/model", revision="v1"), tmp_path)


def test_weights_in_another_format_are_fetched_where_there_are_no_others(
    monkeypatch, checkpoint, tmp_path
):
    folder = tmp_path / "old"
    shutil.copytree(checkpoint, folder)
    (folder / WEIGHTS).unlink()
    torch.save(load_file(checkpoint / WEIGHTS), folder / "pytorch_model.bin")
    (folder / "README.md").write_text("not fetched")
    with ModelHub(monkeypatch, tmp_path / "cache", folder):
        assert load_policy(probe_of("tiny/model"), tmp_path).identity == {"model": COMMIT}
    cached = {path.name for path in (tmp_path / "cache").rglob("*.*")}
    assert "pytorch_model.bin" in cached
    assert "README.md" not in cached


def test_a_cache_that_lacks_the_weights_is_not_enough_without_a_network(hub, tmp_path):
    with pytest.raises(InputError, match=r"no such folder; give a .* folder or a Hub name"):
        locate("model.path", "a/b/c", None, tmp_path)
    assert hub.asked == []
    huggingface_hub.hf_hub_download("tiny/model", "config.json")
    hub.move(NOWHERE)
    with pytest.raises(InputError, match=r"; fetch all of it: hf download tiny/model"):
        load_policy(probe_of("tiny/model"), tmp_path)


# Identity: the content of a folder.


def fingerprint(folder):
    return Location("model.path", str(folder), folder=folder).identify()


def test_a_fingerprint_is_of_the_content_alone(copy, checkpoint):
    before = fingerprint(copy)
    assert before == fingerprint(checkpoint)
    os.utime(copy / WEIGHTS, (0, 0))
    (copy / "README.md").write_text("a model")
    (copy / "trainer_state.json").write_text("{}")
    assert fingerprint(copy) == before
    seen = {before}
    for change in (
        weights(lambda values: [one.mul_(1.01) for one in values.values()]),
        *map(lengthen, ("config.json", "tokenizer.json", WEIGHTS)),
        lambda folder: (folder / "config.json").rename(folder / "other.json"),
    ):
        change(copy)
        assert fingerprint(copy) not in seen
        seen.add(fingerprint(copy))
