"""A second device that is not there: its tensors say so, and are computed on the CPU.

Mixing them with the CPU's fails, as it does with a GPU's. So a model spread over several
devices is tested on a machine that has one. Registering such a device concerns the whole
process: run this file as a program; it spreads a tiny model over both and prints, as JSON,
how far the results are from those of the same model on the CPU.
"""

import json
import os
import sys
from contextlib import ExitStack

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

DEVICE = "pretended:0"


class Placed(torch.Tensor):
    """A tensor on the pretended device."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
            requires_grad=held.requires_grad,
        )

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        return compute(operator, args, kwargs or {})


def held(value):
    return value.held if isinstance(value, Placed) else value


def copy(operator, args, kwargs):
    """Move between devices, or change the dtype where it is."""
    there = isinstance(args[0], Placed)
    if kwargs.get("device") is not None:
        there = torch.device(kwargs.pop("device")).type == "pretended"
    found = operator(held(args[0]), *args[1:], **kwargs)
    return Placed(found.clone() if found is held(args[0]) else found) if there else found


def compute(operator, args, kwargs):
    name = operator._schema.name
    if name == "aten::_to_copy":
        return copy(operator, args, dict(kwargs))
    if name == "aten::copy_":
        held(args[0]).copy_(held(args[1]))
        return args[0]
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    placed = [one for one in tensors if isinstance(one, Placed)]
    others = [one for one in tensors if not isinstance(one, Placed) and one.dim()]
    # A CPU's index serves everywhere; a device's own serves that device.
    if placed and others and not (name == "aten::index" and isinstance(args[0], Placed)):
        raise RuntimeError(f"{name}: tensors on {DEVICE} and on the CPU")
    there = bool(placed)
    if kwargs.get("device") is not None:
        there = torch.device(kwargs["device"]).type == "pretended"
        kwargs = {**kwargs, "device": "cpu"}
    found = operator(*tree_map(held, args), **tree_map(held, kwargs))
    same = {id(one.held): one for one in placed}

    def wrap(value):
        if not there or not isinstance(value, torch.Tensor):
            return value
        return same[id(value)] if id(value) in same else Placed(value)

    return tree_map(wrap, found)


class Placing(TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        return compute(operator, args, kwargs or {})


class Making(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.tensor and kwargs.get("device") is not None:
            device = kwargs.pop("device")
            return torch.tensor(*args, **kwargs).to(device)
        return function(*args, **kwargs)


def spread(model, places):
    """Put modules on devices, with the hooks that accelerate's dispatch_model sets."""
    from accelerate.hooks import AlignDevicesHook, attach_align_device_hook_on_blocks

    moved = {}
    for prefix, place in places.items():
        for module in model.get_submodule(prefix).modules():
            for name, parameter in module._parameters.items():
                if parameter is not None and id(parameter) not in moved:
                    value = torch.nn.Parameter(parameter.to(place), requires_grad=False)
                    moved[id(parameter)] = value
                if parameter is not None:
                    module._parameters[name] = moved[id(parameter)]
            for name, buffer in module._buffers.items():
                module._buffers[name] = buffer.to(place)
    # All is on its device by now.
    AlignDevicesHook.init_hook = lambda hook, module: module
    attach_align_device_hook_on_blocks(
        model,
        {"": next(iter(places.values())), **places},
        dict.fromkeys(places, False),
        skip_keys=model._skip_keys_device_placement,
    )


def measure(tied, first, second):
    """Compare draws, reference and scores of a spread model with those on the CPU."""
    from dataclasses import replace

    from models import draw, random_model, random_policy
    from mse_lab.scores.reference import weighted_gradient
    from mse_lab.scores.score_block import Scoring, score_block
    from plain_scores import (
        PROMPT,
        autograd_scores,
        joined,
        random_reference,
        relative_gap,
        some_completions,
    )

    policy = random_policy(tied=tied)
    uniforms = np.random.default_rng(1).random((9, 6))
    seen = draw(policy, PROMPT, uniforms, "p")
    drawn, reference = some_completions(policy), random_reference(policy)
    expected = autograd_scores(policy, drawn)
    products = expected @ joined(reference)
    with ExitStack() as stack:
        for mode in (Making(), Placing()):
            stack.enter_context(mode)
        model = random_model("qwen2", tied=tied).double()
        lower = {"model.embed_tokens", "model.rotary_emb", "model.layers.0"}
        upper = {"model.layers.1", "model.norm"}
        (lower if tied else upper).add("lm_head")
        spread(model, dict.fromkeys(lower, first) | dict.fromkeys(upper, second))
        spread_policy = replace(
            policy, model=model, parameters=dict(model.named_parameters())
        )
        parameters = spread_policy.parameters
        yield "devices", abs(len(spread_policy.devices) - 2)
        there = {name: part.to(parameters[name].device) for name, part in reference.items()}
        again = draw(spread_policy, PROMPT, uniforms, "p")
        yield "tokens", float(np.abs(again.tokens_NT - seen.tokens_NT).max())
        gradient, _ = weighted_gradient(spread_policy, PROMPT, drawn, np.ones(len(drawn)))
        summed = torch.cat([gradient[name].cpu().flatten() for name in parameters])
        yield "reference", relative_gap(summed.numpy(), expected.sum(0))
        for how in (Scoring(), Scoring(sliced=True), Scoring(alone=True)):
            found = score_block(spread_policy, PROMPT, drawn, there, how=how)
            gram_NN = expected @ expected.T
            yield f"gram {how}", relative_gap(found.gram_NN, gram_NN)
            yield f"products {how}", relative_gap(found.products_N, products)


def main():
    _setup_privateuseone_for_python_backend("pretended")
    gaps = {}
    for tied, first, second in ((True, "cpu", DEVICE), (False, DEVICE, "cpu")):
        for name, gap in measure(tied, first, second):
            gaps[f"{first} {second} {tied} {name}"] = float(gap)
    json.dump(gaps, sys.stdout)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
