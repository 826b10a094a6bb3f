"""The policy: what of a checkpoint is taken, which parameters count, how prompts go in."""

import json
import shutil

import pytest
import torch

from models import random_policy
from mse_lab.errors import InputError
from mse_lab.policy.chat_template import render_chats
from mse_lab.policy.policy import (
    encode_prompts,
    load_policy,
    pick_device,
    select_parameters,
)
from mse_lab.probe.probe_files import parse_probe
from mse_lab.probe.prompts import Prompt


@pytest.fixture
def copy(tmp_path, checkpoint):
    return shutil.copytree(checkpoint, tmp_path / "copy")


def parse(**model):
    values = {"path": "x", "device": "cpu", **model}
    return parse_probe({"model": values, "prompts": {"source": "x"}}, "probe")


def load(folder, **model):
    return load_policy(parse(path=str(folder), **model), folder.parent)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"adapter": {"rank": 0}}, "model.adapter.rank = 0: should be greater"),
        ({"adapter": {"rnk": 4}}, "unknown key model.adapter.rnk; did you mean rank?"),
        ({"adapter": {"target": "q_proj"}}, "target = 'q_proj': use all-linear, or a list"),
        ({"adapter": {"alpha": -1}}, "model.adapter.alpha = -1: should be greater"),
        ({"adapter": 3}, "model.adapter = 3: should be a valid string"),
        ({"device_map": "auto"}, "takes all devices; set model.device = auto, not cpu"),
        ({"device_map": "balanced"}, "model.device_map = 'balanced': should be 'auto'"),
        ({"adaptor": "x"}, "unknown key model.adaptor; did you mean adapter?"),
    ],
    ids=["rank", "misspelt", "target", "alpha", "kind", "device", "map", "adapter"],
)
def test_a_model_section_that_cannot_be_used_is_refused(model, expected):
    with pytest.raises(InputError) as refused:
        parse(**model)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_fresh_adapter_has_defaults():
    adapter = parse(adapter={}).model.adapter
    assert (adapter.rank, adapter.alpha, adapter.target) == (8, 16.0, "all-linear")
    assert parse(adapter="owner/name").model.adapter == "owner/name"
    assert parse().model.adapter is None


def test_all_end_tokens_are_taken_and_nothing_else(copy):
    path = copy / "generation_config.json"
    values = {"eos_token_id": [3, 1], "temperature": 0.1, "top_k": 1, "do_sample": True}
    path.write_text(json.dumps(values))
    policy = load(copy)
    assert policy.end_tokens == (0, 1, 3)
    assert policy.temperature == 1.0


def test_a_policy_says_where_token_ids_go(copy):
    policy = load(copy)
    assert policy.device == policy.model.get_input_embeddings().weight.device
    assert policy.devices == [policy.device]
    assert set(policy.identity) == {"model"}


def test_no_parameter_requires_a_gradient(copy):
    policy = load(copy)
    assert not any(parameter.requires_grad for parameter in policy.model.parameters())
    assert not policy.model.training


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["mlp["], "no regular expression"),
        (["mlp", "moe"], "'moe' matches none; names look like model.embed_tokens"),
    ],
    ids=["broken", "matches nothing"],
)
def test_a_pattern_that_cannot_be_used_is_refused(patterns, message):
    with pytest.raises(InputError, match=message):
        select_parameters(random_policy().model, patterns)


def test_a_tied_parameter_stands_once():
    named = select_parameters(random_policy(tied=True).model, "all")
    assert "lm_head.weight" not in named
    assert len({id(parameter) for parameter in named.values()}) == len(named)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(InputError, match=r"model.device = cuda:1: not on this machine"):
        pick_device("cuda:1")


def prompt(text):
    return Prompt(id="p", text=text, category="", record={"id": "p"})


TEMPLATES = {
    "raises": ("{{ raise_exception('no user turn') }}", "fails on prompt p: no user turn"),
    "divides by zero": ("{{ 1 / 0 }}", "division by zero"),
    "recurses": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion depth"),
    "towers": ("{{ 9 ** (9 ** (9 ** 9)) }}", "not done after"),
    "long": ("{{ 'a' * 5000000 }}", "makes 5000000 characters"),
    "no memory": ("{{ 'a' * 100000000000 }}", "MemoryError"),
    "no text": (["x"], "fails on prompt p: "),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_chat_template_that_fails_is_refused(copy, monkeypatch, capfd, name):
    """Nothing that it does hangs, or reaches this process."""
    if name == "towers":
        monkeypatch.setattr("mse_lab.policy.chat_template.SECONDS", 2.0)
    policy = load(copy)
    policy.tokenizer.chat_template, expected = TEMPLATES[name]
    with pytest.raises(InputError, match=expected) as refused:
        encode_prompts(policy, [prompt("1")], chat=True, new_tokens=1)
    assert str(refused.value).startswith("prompts.chat = true: ")
    assert "\n" not in str(refused.value)
    assert capfd.readouterr().err == ""


def test_a_chat_is_what_transformers_makes_of_it(copy):
    policy = load(copy)
    policy.tokenizer.chat_template = (
        "{{ eos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %} 3{% endif %}"
    )
    texts = ["1 2", "3", "2\n1"]
    expected = [
        policy.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}],
            tokenize=False,
            add_generation_prompt=True,
        )
        for text in texts
    ]
    assert render_chats(policy.tokenizer, ["a", "b", "c"], texts) == expected
    found = encode_prompts(policy, [prompt("1 2")], chat=True, new_tokens=1)
    assert found == [[0, 1, 2, 3]]


def test_another_models_tokenizer_is_refused(copy):
    """Its ids would be looked up beyond the embedding."""
    path = copy / "tokenizer.json"
    values = json.loads(path.read_text())
    values["model"]["vocab"]["9"] = 4
    path.write_text(json.dumps(values))
    policy = load(copy)
    assert encode_prompts(policy, [prompt("1 2")], chat=False, new_tokens=1) == [[1, 2]]
    with pytest.raises(InputError, match="token 4 is beyond the 4 of the model"):
        encode_prompts(policy, [prompt("1 9")], chat=False, new_tokens=1)
