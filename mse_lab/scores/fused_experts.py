"""Fused experts: the factors of matrices (E, ...) of which each token uses a few slices.

A mixture of experts computes, for a token with hidden state h and each of its k slots,
routed to expert e with weight w,

    u = A_e h (+ a_e),   y = w (B_e act(u) (+ b_e)),

and adds up y over the slots. A completion's gradient in A_e is the sum of d_u h' over its
slots routed to e, in B_e that of d_y (w act(u))', so memory is in proportion to tokens, not
to experts. The layers are those that transformers marks as experts. When a layer is first
met it is computed here once more, expert by expert, and must give the same result.
"""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from mse_lab.scores.autograd_rule import agree
from mse_lab.scores.factors import Factor, RoutedProducts, RowSums
from mse_lab.scores.module_calls import Call

# What transformers sets on the classes that it marks as experts.
_MARKS = ("has_gate", "has_bias", "has_post_expert_norm", "is_transposed")


class _Experts:
    """A call: hidden states (M, H), each token's experts and their weights (M, k).

    `first` is the name of the matrices A.
    """

    def __init__(self, call: Call) -> None:
        module: Any = call.module
        self.first = "gate_up_proj" if module.has_gate else "up_proj"
        self._parameters = dict(module.named_parameters(recurse=False))
        self._transposed = module.is_transposed
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
        found = []
        for expert, token, weight in self._routes():
            u = self._apply(self.first, self.hidden[token], expert).requires_grad_()
            with torch.enable_grad():
                act = self._activate(u)
            d_act = (d[token] * weight.to(d)) @ self._matrix("down_proj", expert)
            (d_u,) = torch.autograd.grad(act, u, d_act.to(act))
            found.append((d_u, act.detach() * weight.to(act)))
        back = self._order.argsort()
        d_u, active = (torch.cat(parts)[back] for parts in zip(*found, strict=True))
        return d_u, active


def are_fused_experts(call: Call) -> bool:
    """Whether a call is one of fused experts, of parameters of their own alone."""
    module: Any = call.module
    return (
        all(hasattr(module, mark) for mark in _MARKS)
        and not module.has_post_expert_norm
        and not getattr(module, "_is_expert_parallel", False)
        and all("." not in local for local in call.own)
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
