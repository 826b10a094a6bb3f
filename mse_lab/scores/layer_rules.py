"""Rules: a module's call and the gradients of its results -> its parameters' factors.

Common modules have a closed form, by exact type; norms and others are affine in each entry
of their parameters. A module that is neither, nor fused experts, is run once more
(`autograd_rule.py`). The first of `RULES` that fits a module is the module's
(`scoring_plan.py`); a new kind of layer needs an entry in `_CLOSED`, or a rule of its own.

Fused experts are the layers that transformers marks so. For a token with hidden state h and
each of its k slots, routed to expert e with weight w, they compute

    u = A_e h (+ a_e),   y = w (B_e act(u) (+ b_e)),

and add up y over the slots. A completion's gradient in A_e is the sum of d_u h' over its
slots routed to e, in B_e that of d_y (w act(u))', so memory is in proportion to tokens, not
to experts. When a layer is first met it is computed here once more, expert by expert, and
must give the same result.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mse_lab.scores.autograd_rule import agree, run_again
from mse_lab.scores.factors import Dense, Factor, OuterProducts, RoutedProducts, RowSums
from mse_lab.scores.module_hooks import Call

# What transformers sets on the classes that it marks as experts.
_MARKS = ("has_gate", "has_bias", "has_post_expert_norm", "is_transposed")


class _Experts:
    """A call: hidden states (M, H), each token's experts and their weights (M, k)."""

    def __init__(self, call: Call) -> None:
        module: Any = call.module
        self.first = "gate_up_proj" if module.has_gate else "up_proj"
        self._parameters = dict(module.named_parameters(recurse=False))
        self._transposed = module.is_transposed
        # What the gate does differs by model, and is known by this name alone.
        self._activate = module._apply_gate if module.has_gate else module.act_fn
        forward = inspect.signature(type(module).forward)
        bound = forward.bind(module, *call.args, **call.kwargs)
        self.hidden, self.expert, self.weight = (
            tensor.flatten(0, -2) for tensor in list(bound.arguments.values())[1:4]
        )
        # Slots in the order of their experts.
        self._order = self.expert.flatten().argsort(stable=True)

    def _routes(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield each expert that has slots, the tokens of its slots, and their weights."""
        count = len(self._parameters[self.first])
        sizes = torch.bincount(self.expert.flatten(), minlength=count).tolist()
        for expert, slot in enumerate(self._order.split(sizes)):
            if len(slot):
                token = slot // self.expert.shape[1]
                yield expert, token, self.weight.flatten()[slot, None]

    def _matrix(self, name: str, expert: int) -> Tensor:
        # As (output, input).
        matrix = self._parameters[name][expert].detach()
        return matrix.mT if self._transposed else matrix

    def _apply(self, name: str, x: Tensor, expert: int) -> Tensor:
        y, bias = x @ self._matrix(name, expert).mT, self._parameters.get(f"{name}_bias")
        return y if bias is None else y + bias[expert].detach()

    def run(self) -> Tensor:
        result = torch.zeros_like(self.hidden)
        for expert, token, weight in self._routes():
            act = self._activate(self._apply(self.first, self.hidden[token], expert))
            y = self._apply("down_proj", act, expert) * weight
            result.index_add_(0, token, y.to(result))
        return result

    def pull_back(self, d: Tensor) -> tuple[Tensor, Tensor]:
        """Give the gradient in u, and w act(u), of every slot."""
        slots = []
        for expert, token, weight in self._routes():
            u = self._apply(self.first, self.hidden[token], expert).requires_grad_()
            with torch.enable_grad():
                act = self._activate(u)
            d_act = (d[token] * weight.to(d)) @ self._matrix("down_proj", expert)
            (d_u,) = torch.autograd.grad(act, u, d_act.to(act))
            slots.append((d_u, act.detach() * weight.to(act)))
        back = self._order.argsort()
        d_u, active = (torch.cat(parts)[back] for parts in zip(*slots, strict=True))
        return d_u, active


def are_fused_experts(call: Call) -> bool:
    """Whether a call is one of fused experts, of parameters of their own alone."""
    module: Any = call.module
    return (
        all(hasattr(module, mark) for mark in _MARKS)
        and not module.has_post_expert_norm
        # Set where a process has some of the experts; no public name says so.
        and not getattr(module, "_is_expert_parallel", False)
        and all("." not in local for local in call.names)
        and len(call.inputs) == 3
        and len(call.results) == 1
        and agree(_Experts(call).run(), call.results[0].flatten(0, -2))
    )


def experts_factors(call: Call, gradients: list[Tensor]) -> dict[str, Factor]:
    """Find the factors of a call of fused experts, a factor for each parameter."""
    module: Any = call.module
    experts, d = _Experts(call), gradients[0].flatten(0, -2)

    def split(tensor: Tensor) -> Tensor:
        return tensor.unflatten(0, (call.batch.rows, -1))

    expert_NS = split(experts.expert.flatten())
    d_u, active = map(split, experts.pull_back(d))
    sides = {experts.first: (d_u, split(experts.hidden)), "down_proj": (split(d), active)}
    factors: dict[str, Factor] = {
        name: RoutedProducts(*(pair[::-1] if module.is_transposed else pair), expert_NS)
        for name, pair in sides.items()
    }
    if module.has_bias:
        d_y = (d[:, None] * experts.weight[..., None].to(d)).flatten(0, 1)
        factors[f"{experts.first}_bias"] = RowSums(expert_NS, d_u)
        factors["down_proj_bias"] = RowSums(expert_NS, split(d_y))
    return factors


Factors = dict[str, Factor]


@dataclass(frozen=True)
class Rule:
    """How the factors of a module's parameters are computed."""

    name: str  # In words.
    # Call, gradients of its results -> a factor for each of its parameters; raises
    # NoExactScore.
    factors: Callable[[Call, list[Tensor]], Mapping[str, Factor]]
    # Whether it holds for a call of a module that is met for the first time.
    fits: Callable[[Call], bool] = lambda call: True
    # Whether the factors need the call's results.
    keeps_results: bool = False


def _linear(call: Call, x: Tensor, d: Tensor) -> Factors:
    # Causal models compute the prompt's tokens alike for all its completions.
    by_token = x.dim() == 3 and x.shape[1] == call.batch.tokens
    shared = call.batch.shared if by_token else 0
    x, d = x.flatten(1, -2), d.flatten(1, -2)
    return {"weight": OuterProducts(d, x, shared), "bias": Dense(d.sum(1))}


def _conv1d(call: Call, x: Tensor, d: Tensor) -> Factors:
    """GPT-2's linear layer, its weight stored as (input, output)."""
    x, d = x.flatten(1, -2), d.flatten(1, -2)
    return {"weight": OuterProducts(x, d), "bias": Dense(d.sum(1))}


def _embedding(call: Call, x: Tensor, d: Tensor) -> Factors:
    padding: Any = call.module.padding_idx
    if padding is not None:
        # As autograd has it: the padding row is a constant when looked up.
        d = d * (x != padding)[..., None]
    return {"weight": RowSums(x.flatten(1), d.flatten(1, -2))}


# By exact type: a subclass may compute something else and is differentiated as it is.
_CLOSED: dict[type, Callable[[Call, Tensor, Tensor], Factors]] = {
    nn.Linear: _linear,
    Conv1D: _conv1d,
    nn.Embedding: _embedding,
}


def _is_as_written(call: Call) -> bool:
    """Whether a call computed what the module's type says, of its parameters as stored.

    A hook, or another forward, may give something else: the module is run once more, with
    and without them. What a hook before the call changes is in the call's inputs.
    """
    module = call.module
    stored = all(
        local in ("weight", "bias") and type(getattr(module, local)) is nn.Parameter
        for local in call.names
    )
    plain = not isinstance(module, nn.Embedding) or (
        module.max_norm is None and not module.scale_grad_by_freq
    )
    single = len(call.inputs) == len(call.results) == 1
    if not (type(module) in _CLOSED and stored and plain and single):
        return False
    (x,), (output,) = call.inputs, call.run(call.values())
    return agree(type(module).forward(module, x.to(output.device)), output)


def _closed_form(call: Call, gradients: list[Tensor]) -> Factors:
    (x,), (d,) = call.inputs, gradients
    # A strided factor would be multiplied row by row.
    x = call.split(x.to(d.device).contiguous())
    d = d if call.common else call.split(d)
    return _CLOSED[type(call.module)](call, x, d)


def _affine(call: Call, gradients: list[Tensor]) -> dict[str, Dense]:
    """Result = weight x slope + rest in each entry: the gradient is d x slope, summed.

    The slope is what the result gains where all entries of the weight go from 0 to 1.
    """
    direct = dict(call.module.named_parameters(recurse=False))
    zeros = {local: torch.zeros_like(parameter) for local, parameter in direct.items()}
    (d,), (at_zero,) = gradients, call.run(zeros)
    (at_one,) = call.run(zeros | {"weight": torch.ones_like(direct["weight"])})
    slope = at_one - at_zero
    if not call.common:
        d, slope = call.split(d), call.split(slope)

    def summed(each: Tensor) -> Dense:
        middle = tuple(range(1, each.dim() - direct["weight"].dim()))
        return Dense(each.sum(middle) if middle else each)

    return {"weight": summed(d * slope), "bias": summed(d)}


def _may_be_affine(call: Call) -> bool:
    """Whether a module maps one tensor to one of its shape, with entries' own weights."""
    parameters = dict(call.module.named_parameters(recurse=False))
    weight = parameters.get("weight")
    return (
        weight is not None
        and set(call.names) <= set(parameters) <= {"weight", "bias"}
        and all(parameter.shape == weight.shape for parameter in parameters.values())
        and [one.shape for one in call.results] == [one.shape for one in call.inputs]
        and len(call.results) == 1
        and call.results[0].shape[-weight.dim() :] == weight.shape
        and call.results[0].dim() > weight.dim()
    )


def _is_affine(call: Call) -> bool:
    """Check by autograd that the result is affine in each entry of the weight."""
    if not _may_be_affine(call):
        return False
    values = {local: value.requires_grad_() for local, value in call.values().items()}
    (result,) = call.run(values)
    # Any gradient would do whose entries differ.
    d = call.inputs[0].to(result)
    expected = torch.autograd.grad(result, list(values.values()), d, allow_unused=True)
    factors = _affine(call, [d])
    return all(
        gradient is not None and agree(factors[local].values.sum(0), gradient)
        for local, gradient in zip(values, expected, strict=True)
    )


RULES = (
    Rule("closed form", _closed_form, _is_as_written),
    Rule("affine in each entry", _affine, _is_affine),
    Rule("fused experts", experts_factors, are_fused_experts),
    Rule("run again", run_again, keeps_results=True),
)
