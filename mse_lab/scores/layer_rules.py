"""Rules: a module's call and the gradient of its result -> its parameters' factors.

Linear maps and lookups have a closed form; norms and others are affine in each entry of
their parameters. The first of `RULES` that fits a module is the module's
(`scoring_plan.py`); a new kind of layer needs a rule here. What has none is differentiated
with its whole model, a completion at a time (`plain_backward.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mse_lab.scores.factors import Dense, Factor, OuterProducts, RowSums
from mse_lab.scores.module_hooks import Call

Factors = Mapping[str, Factor]


class Rule(NamedTuple):
    """How the factors of a module's parameters are computed."""

    fits: Callable[[Call], bool]  # Whether it holds for a call of a module that is new.
    # Call, gradient of its result -> a factor for each of its parameters.
    factors: Callable[[Call, Tensor], Factors]


def agree(given: Tensor, expected: Tensor) -> bool:
    """Whether two results agree to rounding errors, which softmax and norms enlarge."""
    # Many modules compute in float32 whatever the model's precision.
    coarse = max(torch.finfo(x.dtype).eps for x in (given, expected))
    bound = max(coarse, torch.finfo(torch.float32).eps) ** 0.5
    scale = expected.abs().max() if expected.numel() else 0
    return given.shape == expected.shape and bool(
        ((given - expected).abs() <= bound * scale).all()
    )


def _owns(call: Call, kind: Any) -> bool:
    """Whether a call's parameters are a weight, and a bias, of a kind, as stored."""
    return isinstance(call.module, kind) and all(
        local in ("weight", "bias")
        and isinstance(getattr(call.module, local), nn.Parameter)
        for local in call.names
    )


# By exact type: a subclass may compute something else.
_LINEAR = (nn.Linear, Conv1D)


def _is_linear(call: Call) -> bool:
    """Whether a call computed what the module's type says.

    A hook, or another forward, may give something else: the module is run once more, with
    and without them. What a hook before the call changes is in the call's inputs.
    """
    module: Any = call.module
    if type(module) not in _LINEAR or not _owns(call, _LINEAR) or len(call.inputs) != 1:
        return False
    (x,), result = call.inputs, call.run(call.values())
    return agree(type(module).forward(module, x.to(result.device)), result)


def _linear(call: Call, d: Tensor) -> Factors:
    (x,) = call.inputs
    # A strided factor would be multiplied row by row.
    x = call.split(x.to(d.device).contiguous())
    # Causal models compute the prompt's tokens alike for all its completions.
    by_token = x.dim() == 3 and x.shape[1] == call.tokens
    shared = call.shared if by_token and isinstance(call.module, nn.Linear) else 0
    x, d = x.flatten(1, -2), call.split(d).flatten(1, -2)
    bias = Dense(d.sum(1))
    if isinstance(call.module, Conv1D):  # Its weight is stored as (input, output).
        return {"weight": OuterProducts(x, d), "bias": bias}
    return {"weight": OuterProducts(d, x, shared), "bias": bias}


def _look_up(call: Call) -> tuple[Tensor, Tensor]:
    """Give the rows that a call looks up, (N, T), and what multiplies them, (N, T, C).

    That is what a lookup of ones gives.
    """
    weight: Any = call.module.weight
    slope = call.run({"weight": torch.ones_like(weight[:1]).expand_as(weight)})
    return call.split(call.inputs[0].to(slope.device)), call.split(slope)


def _is_lookup(call: Call) -> bool:
    """Whether a result is rows of the weight, times what does not depend on it."""
    module: Any = call.module
    if not _owns(call, nn.Embedding) or module.max_norm or module.scale_grad_by_freq:
        return False
    if len(call.inputs) != 1 or call.inputs[0].is_floating_point():
        return False
    index_NT, slope_NTC = _look_up(call)
    rows = module.weight.detach()[index_NT.to(module.weight.device)]
    right = agree(slope_NTC * rows.to(slope_NTC.device), call.split(call.result))
    return right and (module.padding_idx is None or _spares_padding(call))


def _spares_padding(call: Call) -> bool:
    """Whether the padding row gets no gradient, as in torch's own lookup."""
    module: Any = call.module
    padding = torch.full_like(call.inputs[0], module.padding_idx)

    def padded(each: Any) -> Any:
        return padding if isinstance(each, Tensor) else each

    args = tuple(map(padded, call.args))
    kwargs = {name: padded(each) for name, each in call.kwargs.items()}
    weight = module.weight.detach().requires_grad_()
    result = replace(call, args=args, kwargs=kwargs).run({"weight": weight})
    if not result.requires_grad:
        return True
    # No entries alike: else slopes that add up to 0 would hide the gradient.
    d = torch.linspace(1, 2, result.numel()).reshape(result.shape).to(result)
    return not torch.autograd.grad(result, weight, d)[0].any()


def _lookup(call: Call, d: Tensor) -> Factors:
    index_NT, slope_NTC = _look_up(call)
    padding: Any = call.module.padding_idx
    # Autograd takes the padding row for a constant.
    counts_NT = index_NT != (-1 if padding is None else padding)
    d = call.split(d) * (slope_NTC * counts_NT[..., None])
    return {"weight": RowSums(index_NT.flatten(1), d.flatten(1, -2))}


def _affine(call: Call, d: Tensor) -> dict[str, Dense]:
    """Result = weight x slope + rest in each entry: the gradient is d x slope, summed.

    The slope is what the result gains where all entries of the weight go from 0 to 1.
    """
    direct = dict(call.module.named_parameters(recurse=False))
    zeros = {local: torch.zeros_like(parameter) for local, parameter in direct.items()}
    ones = zeros | {"weight": torch.ones_like(direct["weight"])}
    slope = call.split(call.run(ones) - call.run(zeros))

    def summed(each: Tensor) -> Dense:
        middle = tuple(range(1, each.dim() - direct["weight"].dim()))
        return Dense(each.sum(middle) if middle else each)

    d = call.split(d)
    return {"weight": summed(d * slope), "bias": summed(d)}


def _may_be_affine(call: Call) -> bool:
    """Whether a module maps one tensor to one of its shape, with entries' own weights."""
    parameters = dict(call.module.named_parameters(recurse=False))
    weight = parameters.get("weight")
    return (
        weight is not None
        and set(call.names) <= set(parameters) <= {"weight", "bias"}
        and all(parameter.shape == weight.shape for parameter in parameters.values())
        and [one.shape for one in call.inputs] == [call.result.shape]
        and call.result.shape[-weight.dim() :] == weight.shape
        and call.result.dim() > weight.dim()
    )


def _is_affine(call: Call) -> bool:
    """Check by autograd that the result is affine in each entry of the weight."""
    if not _may_be_affine(call):
        return False
    values = {local: value.requires_grad_() for local, value in call.values().items()}
    result = call.run(values)
    # Any gradient would do whose entries differ.
    d = call.inputs[0].to(result)
    expected = torch.autograd.grad(result, list(values.values()), d, allow_unused=True)
    factors = _affine(call, d)
    return all(
        gradient is not None and agree(factors[local].values.sum(0), gradient)
        for local, gradient in zip(values, expected, strict=True)
    )


RULES = (Rule(_is_linear, _linear), Rule(_is_lookup, _lookup), Rule(_is_affine, _affine))
