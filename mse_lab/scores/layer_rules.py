"""Rules: a module's call and the gradients of its results -> its parameters' factors.

The common modules have a rule in closed form, by exact type, and so do norms and others
whose result is affine in each entry of their parameters, and fused experts. Any other
module that owns parameters is run once more and differentiated (`replays.py`).
"""

from collections.abc import Callable
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mse_lab.scores.autograd_rule import agree, replayed_factors
from mse_lab.scores.factors import Dense, Factor, OuterProducts, RowSums
from mse_lab.scores.fused_experts import are_fused_experts, experts_factors
from mse_lab.scores.module_calls import Call

Factors = dict[str, Factor]
Rule = Callable[[Call, list[Tensor]], Factors]


def _linear(module: nn.Linear, x: Tensor, d: Tensor) -> Factors:
    x, d = x.flatten(1, -2), d.flatten(1, -2)
    return {"weight": OuterProducts(d, x), "bias": Dense(d.sum(1))}


def _conv1d(module: Conv1D, x: Tensor, d: Tensor) -> Factors:
    """GPT-2's linear layer, its weight stored as (input, output)."""
    x, d = x.flatten(1, -2), d.flatten(1, -2)
    return {"weight": OuterProducts(x, d), "bias": Dense(d.sum(1))}


def _embedding(module: nn.Embedding, x: Tensor, d: Tensor) -> Factors:
    if module.padding_idx is not None:
        # As autograd has it: the padding row is a constant when looked up.
        d = d * (x != module.padding_idx)[..., None]
    return {"weight": RowSums(x.flatten(1), d.flatten(1, -2))}


# By exact type: a subclass may compute something else and is differentiated as it is.
_CLOSED: dict[type, Callable[[Any, Tensor, Tensor], Factors]] = {
    nn.Linear: _linear,
    Conv1D: _conv1d,
    nn.Embedding: _embedding,
}

# The value of a module's weight at which its result is the slope in its weight; None
# where there is none. Filled at a module's first call.
_SLOPES: WeakKeyDictionary[nn.Module, float | None] = WeakKeyDictionary()


def is_product(module: nn.Module) -> bool:
    """Whether a module gives a product with a matrix, and keeps none of it."""
    return type(module) in (nn.Linear, Conv1D)


def _is_as_written(call: Call) -> bool:
    """Whether a call computed what the module's type says, of its parameters as stored."""
    module = call.module
    # Ours is one; another may change the result. Accelerate's moves it between devices.
    # What a hook before it changes is in the call's inputs.
    hooked = len(module._forward_hooks) > 1
    replaced = "forward" in vars(module) and not hasattr(module, "_hf_hook")
    stored = all(
        local in ("weight", "bias") and type(getattr(module, local)) is nn.Parameter
        for local in call.own
    )
    plain = not isinstance(module, nn.Embedding) or (
        module.max_norm is None and not module.scale_grad_by_freq
    )
    return stored and plain and not hooked and not replaced and len(call.inputs) == 1


def _pair(call: Call, d: Tensor) -> tuple[Tensor, Tensor]:
    """Input and gradient of the result, completions first, where the gradient is."""
    (x,) = call.inputs
    if call.common:
        x = x.expand(call.batch.rows, *x.shape[1:])
    else:
        x, d = (_known(call.batch.split(tensor)) for tensor in (x, d))
    return x.to(d.device), d


def _known(tensor: Tensor | None) -> Tensor:
    assert tensor is not None  # as `Call.attribute` has seen
    return tensor


def _closed_form(call: Call, gradients: list[Tensor]) -> Factors:
    x, d = _pair(call, gradients[0])
    found = _CLOSED[type(call.module)](call.module, x, d)
    weight = found["weight"]
    by_token = x.dim() == 3 and x.shape[1] == call.batch.tokens
    if type(call.module) is nn.Linear and isinstance(weight, OuterProducts) and by_token:
        # Causal models compute the prompt's tokens alike for all its completions.
        found["weight"] = weight._replace(shared=call.batch.shared)
    return found


def _at(call: Call, weight: float, index: int | None = None) -> Tensor:
    """Run a module with all entries of its weight the same, and no bias."""
    values = {
        local: torch.full_like(parameter, weight if local == "weight" else 0.0)
        for local, parameter in call.module.named_parameters(recurse=False)
    }
    return call.run(values, index)[0]


def _sum_entries(values: Tensor, shape: torch.Size) -> Tensor:
    """Sum (N, ..., *shape) over all in between, (N, *shape)."""
    middle = tuple(range(1, values.dim() - len(shape)))
    return values.sum(middle) if middle else values


def _affine(call: Call, gradients: list[Tensor]) -> Factors:
    """Result = weight x slope + bias in each entry: the gradient is d x slope, summed."""
    shape = cast(Tensor, call.module.weight).shape
    d, slope = gradients[0], _at(call, float(_SLOPES[call.module] or 0))
    if not call.common:
        d, slope = (_known(call.batch.split(tensor)) for tensor in (d, slope))
    found: dict[str, Factor] = {"weight": Dense(_sum_entries(d * slope, shape))}
    if "bias" in call.own:
        found["bias"] = Dense(_sum_entries(d, shape))
    return found


def _find_slope(call: Call) -> float | None:
    """Try on a completion which weight gives the slope, if any; autograd is the judge.

    A norm that multiplies by its weight gives it at 1, one that adds 1 first at 0.
    """
    values = {local: value.requires_grad_() for local, value in call.values().items()}
    (result,) = call.run(values, 0)
    # Any gradient would do that differs from entry to entry.
    d = call.batch.part(call.inputs[0], 0).to(result)
    expected = torch.autograd.grad(result, list(values.values()), d, allow_unused=True)
    for weight in (1.0, 0.0):
        found = {"weight": d * _at(call, weight, 0), "bias": d}
        if all(
            gradient is not None
            and agree(found[local].reshape(-1, *value.shape).sum(0), gradient)
            for (local, value), gradient in zip(values.items(), expected, strict=True)
        ):
            return weight
    return None


def _may_be_affine(call: Call, results: list[Tensor]) -> bool:
    """Whether a module maps one tensor to one of its shape, with entries' own weights."""
    parameters = dict(call.module.named_parameters(recurse=False))
    weight = parameters.get("weight")
    return (
        weight is not None
        and set(call.own) <= set(parameters) <= {"weight", "bias"}
        and all(parameter.shape == weight.shape for parameter in parameters.values())
        and [tensor.shape for tensor in results] == [tensor.shape for tensor in call.inputs]
        and len(results) == 1
        and results[0].shape[-weight.dim() :] == weight.shape
        and results[0].dim() > weight.dim()
    )


def choose_rule(call: Call, results: list[Tensor]) -> Rule:
    """Choose the rule for a call.

    Args:
        call: The call; its module may be run once more.
        results: What came out of it.

    Returns:
        From the call and its results' gradients to a factor for every own parameter.
    """
    if type(call.module) in _CLOSED and _is_as_written(call) and len(results) == 1:
        return _closed_form
    if _may_be_affine(call, results):
        if call.module not in _SLOPES:
            _SLOPES[call.module] = _find_slope(call)
        if _SLOPES[call.module] is not None:
            return _affine
    call.results = [tensor.detach() for tensor in results]
    return experts_factors if are_fused_experts(call) else replayed_factors
