"""A policy made from a model in memory, which is borrowed and restored afterwards.

The model is measured in evaluation mode, without dropout. Only its trained parameters
count, as for an optimiser: those of its PEFT adapter, or those that are not frozen.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import DTensor

from mse_lab.config.schema import Probe
from mse_lab.data.location import Location
from mse_lab.policy.adapters import refuse_outside
from mse_lab.policy.checkpoint import is_quantised, refuse_forward
from mse_lab.policy.policy import Policy, make_policy


@contextmanager
def _borrowed(model: nn.Module) -> Iterator[None]:
    """Put a model in evaluation mode without gradients; restore it after the block."""
    modes = [(module, module.training) for module in model.modules()]
    states = [
        (parameter, parameter.requires_grad, parameter.grad)
        for parameter in model.parameters()
    ]
    for parameter, _, _ in states:
        parameter.grad = None
    try:
        # The caller may have disabled gradients.
        with torch.inference_mode(False), torch.enable_grad():
            model.eval().requires_grad_(False)
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        for parameter, needed, gradient in states:
            parameter.requires_grad_(needed).grad = gradient


@contextmanager
def _kept_streams() -> Iterator[None]:
    """Leave the random streams of Python, NumPy and torch as they were.

    A measurement has streams of its own, but a user's reward may draw from these.
    """
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    # One device: to look at the others would begin to use them.
    used = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(used):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def _is_part(model: nn.Module) -> bool:
    """Whether this process holds a part of the model only: FSDP 1 or 2, or ZeRO-3."""
    return any(
        isinstance(one, DTensor) or hasattr(one, "ds_id") for one in model.parameters()
    ) or any(isinstance(one, FullyShardedDataParallel) for one in model.modules())


def _refuse_hooks(model: nn.Module, location: Location) -> None:
    """Refuse backward hooks: they may change the gradients and those of the checks."""
    # torch lists hooks under private names alone.
    kinds = ("_backward_hooks", "_backward_pre_hooks", "_post_accumulate_grad_hooks")
    for name, part in (*model.named_modules(), *model.named_parameters()):
        if any(getattr(part, kind, None) for kind in kinds):
            raise location.refuse(
                f"{name or 'the model'} has a backward hook, which may change gradients",
                "remove it by the handle that registering it returned",
            )


def _unwrap(model: Any, location: Location) -> Any:
    """Take a model out of PEFT's wrapper; its adapter stays in its layers."""
    adapted = hasattr(model, "peft_config") and hasattr(model, "get_base_model")
    if adapted:
        for config in model.peft_config.values():
            refuse_outside(config, location)
        model = model.get_base_model()
    if not isinstance(model, transformers.PreTrainedModel):
        raise location.refuse("not a transformers model", "unwrap what a trainer wraps")
    if _is_part(model):
        raise location.refuse(
            "this process holds a part of it only (FSDP, ZeRO-3 or tensor parallelism)",
            "give a whole model, or save a checkpoint and measure that",
        )
    _refuse_hooks(model, location)
    is_quantised(location, model.config, adapted=adapted)
    refuse_forward(location, model)
    return model


@contextmanager
def borrow_policy(config: Probe, model: Any, tokenizer: Any) -> Iterator[Policy]:
    """Make a policy from a model inside the block; the model is restored after it.

    It is one of transformers, or PEFT's wrapper of one; `config.model` is not used.
    """
    location = Location("model", type(model).__name__)
    model = _unwrap(model, location)
    named = dict(model.named_parameters())
    trained = {name: weight for name, weight in named.items() if weight.requires_grad}
    with _kept_streams(), _borrowed(model):
        some = trained if 0 < len(trained) < len(named) else None
        yield make_policy(config, model, tokenizer, location, {"model": ""}, some)
