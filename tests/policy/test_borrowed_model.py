"""A borrowed model: measured in evaluation mode, and restored."""

import copy
import warnings

import pytest
import torch
import transformers
from torch import nn

from models import a_part, probe_of, random_model
from mse_lab.errors import InputError
from mse_lab.policy.borrowed_model import borrow_policy

PROBE = probe_of("x")


class Tokenizer:
    eos_token_id = 2


@pytest.fixture
def model():
    """In the midst of training: a part of it in evaluation mode, a part frozen."""
    model = random_model("qwen2").train().requires_grad_(True)
    model.model.layers[0].eval()
    model.model.embed_tokens.requires_grad_(False)
    model.model.norm.weight.grad = torch.ones_like(model.model.norm.weight)
    return model


def state_of(model):
    """All that a trainer rests on, but for the weights."""
    return (
        [module.training for module in model.modules()],
        [(one.requires_grad, one.grad is None) for one in model.parameters()],
        [(one.dtype, one.device) for one in model.parameters()],
        [len(module._forward_hooks) for module in model.modules()],
        [len(module._forward_pre_hooks) for module in model.modules()],
    )


HOOKS = {
    "module": lambda model: model.model.norm.register_full_backward_hook,
    "before": lambda model: model.model.norm.register_full_backward_pre_hook,
    "parameter": lambda model: model.lm_head.weight.requires_grad_(True).register_hook,
    "accumulated": lambda model: (
        model.lm_head.weight.requires_grad_(True).register_post_accumulate_grad_hook
    ),
}


@pytest.mark.parametrize("register", HOOKS.values(), ids=HOOKS)
def test_a_backward_hook_is_refused(model, register):
    """It would change scores and what they are checked against alike."""
    handle = register(model)(lambda *given: None)
    with (
        pytest.raises(InputError, match=r"has a backward hook, .*; remove it by"),
        borrow_policy(PROBE, model, Tokenizer()),
    ):
        pass
    handle.remove()
    with borrow_policy(PROBE, model, Tokenizer()):
        pass


@pytest.mark.parametrize("fails", [False, True])
def test_a_model_comes_back_as_it_was(model, fails):
    before, weights = state_of(model), copy.deepcopy(model.state_dict())
    gradient = model.model.norm.weight.grad
    caller = pytest.raises(ZeroDivisionError) if fails else torch.no_grad()
    with caller, borrow_policy(PROBE, model, Tokenizer()) as policy:
        assert not any(module.training for module in model.modules())
        assert not any(one.requires_grad for one in model.parameters())
        with policy.differentiable():
            policy.logits(torch.tensor([[3, 4]]), kept=1).sum().backward()
        1 / (not fails)
    assert state_of(model) == before
    assert model.model.norm.weight.grad is gradient
    assert (gradient == 1).all()
    assert all(torch.equal(weights[name], one) for name, one in model.state_dict().items())


def test_what_is_frozen_does_not_count(model):
    with borrow_policy(PROBE, model, Tokenizer()) as policy:
        trained = set(policy.parameters)
        assert policy.end_tokens == (1, 2)  # The model's, and the tokenizer's.
    assert "model.embed_tokens.weight" not in trained
    assert len(trained) == len(list(model.parameters())) - 1
    with borrow_policy(PROBE, model.requires_grad_(False), Tokenizer()) as policy:
        assert len(policy.parameters) == len(list(model.parameters()))


class Wrapper(nn.Module):
    """What a trainer may put around a model."""

    def __init__(self, model):
        super().__init__()
        self.module = model


def encoder(_):
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    return transformers.BertModel(transformers.BertConfig(vocab_size=9, **sizes))


def prompted(model):
    peft = pytest.importorskip("peft", reason="adapters need the extra lora")
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    with warnings.catch_warnings(action="ignore"):
        return peft.get_peft_model(model, config)


REFUSED = {
    "prompt learning": (prompted, "a PROMPT_TUNING adapter that does not work by its"),
    "wrapped": (Wrapper, "model = Wrapper: not a transformers model; unwrap what"),
    "encoder": (encoder, "BertModel takes no logits_to_keep"),
    "fsdp-2": (a_part, "a part of it only .FSDP, ZeRO-3 or tensor parallelism.; give a"),
}


@pytest.mark.parametrize(("make", "line"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_measured_is_refused(model, make, line):
    with pytest.raises(InputError, match=line), borrow_policy(PROBE, make(model), None):
        pass
