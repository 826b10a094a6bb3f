"""The policy: what of a checkpoint is taken, which parameters count, how prompts go in."""

import json

import pytest
import torch

from models import random_policy
from mse_lab.errors import InputError
from mse_lab.policy.policy import pick_device, select_parameters
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.probe.prompts import Prompt
from spoilt_checkpoints import load


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


def test_a_pattern_that_matches_nothing_is_refused():
    message = r"'moe' matches no parameter of the model; names look like model.embed_tokens"
    with pytest.raises(InputError, match=message):
        select_parameters(random_policy().model, ["mlp", "moe"])


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


def test_another_models_tokenizer_is_refused(copy):
    """Its ids would be looked up beyond the embedding."""
    path = copy / "tokenizer.json"
    values = json.loads(path.read_text())
    values["model"]["vocab"]["9"] = 4
    path.write_text(json.dumps(values))
    policy = load(copy)
    assert encode_prompts(policy, [prompt("1 2")], chat=False, new_tokens=1) == [[1, 2]]
    with pytest.raises(InputError, match="token 4 is outside the model's vocabulary of 4"):
        encode_prompts(policy, [prompt("1 9")], chat=False, new_tokens=1)
