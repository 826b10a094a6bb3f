"""A policy of a model that is in memory already: lent, and given back as it was.

What is measured is the model in evaluation mode, without dropout. Of a model with an
adapter of PEFT, or with some parameters frozen, only what is trained counts, as it does
for the optimiser that it came from.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch import nn

from mse_lab.policy.adapters import refuse_variants
from mse_lab.policy.checkpoint import is_quantised, refuse_forward
from mse_lab.policy.fingerprint import fingerprint_in_memory
from mse_lab.policy.location import InMemory
from mse_lab.policy.policy import Policy, make_policy
from mse_lab.probe.schema import Probe


@contextmanager
def _lent(model: nn.Module) -> Iterator[None]:
    """Have a model evaluate, with no gradient kept or asked for, inside the block."""
    modes = [(module, module.training) for module in model.modules()]
    states = [(one, one.requires_grad, one.grad) for one in model.parameters()]
    for parameter, _, _ in states:
        parameter.grad = None
    try:
        # Whatever block of torch's the caller is in.
        with torch.inference_mode(False), torch.enable_grad():
            model.eval().requires_grad_(False)
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        for parameter, needed, gradient in states:
            parameter.requires_grad_(needed).grad = gradient


def _trained(model: nn.Module) -> dict[str, nn.Parameter] | None:
    """Give the parameters that require gradients; None where all do, or none does."""
    named = list(model.named_parameters())
    found = {name: parameter for name, parameter in named if parameter.requires_grad}
    return found if 0 < len(found) < len(named) else None


def _refuse_hooks(model: nn.Module, location: InMemory) -> None:
    """Refuse what may change gradients, of scores and of the checks on them alike."""
    modules, parameters = model.named_modules(), model.named_parameters()
    hooked = [
        name for name, one in modules if one._backward_hooks or one._backward_pre_hooks
    ]
    hooked += [
        name
        for name, one in parameters
        if one._backward_hooks or getattr(one, "_post_accumulate_grad_hooks", None)
    ]
    if hooked:
        raise location.refuse(
            f"{hooked[0] or 'the model'} has a backward hook, which may change gradients",
            "remove it by the handle that registering it returned",
        )


def _unwrap(model: Any, location: InMemory) -> Any:
    """Take a model out of PEFT's wrapper; its adapter stays in its layers."""
    adapted = hasattr(model, "peft_config") and hasattr(model, "get_base_model")
    if adapted:
        refuse_variants(model, location)
        model = model.get_base_model()
    if not isinstance(model, transformers.PreTrainedModel):
        raise location.refuse(
            "no model of transformers", "give one, without what a trainer wraps it in"
        )
    _refuse_hooks(model, location)
    is_quantised(location, model.config, adapted=adapted)
    refuse_forward(location, model)
    return model


@contextmanager
def borrow_policy(config: Probe, model: Any, tokenizer: Any) -> Iterator[Policy]:
    """Make a policy of a model inside the block; behind it the model is as it was.

    Args:
        config: The probe; of its `model` only `batch` is used here.
        model: A causal language model of transformers, or PEFT's wrapper of one.
        tokenizer: Its tokenizer.

    Raises:
        InputError: The model cannot be measured.
    """
    location = InMemory.of(model)
    model = _unwrap(model, location)
    trained = _trained(model)
    with _lent(model):
        identity = {"model": fingerprint_in_memory(model)}
        yield make_policy(config, model, tokenizer, location, identity, trained)
