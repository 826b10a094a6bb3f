"""A module of no known kind is run once more, and its products and lookups are observed.

If it only multiplies with its own parameters or looks rows of them up, as routers, scaled
embeddings and patched linear layers do, that run of all completions gives factors. Its
results must be those of the first run.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mse_lab.scores.factors import Dense, Factor, OuterProducts, RowSums
from mse_lab.scores.module_hooks import Call, NoExactScore, changes, tensors_in

_CASTS = {"to", "type", "type_as", "float", "double", "half", "bfloat16"}


class _Use(NamedTuple):
    """A product with a parameter (and a bias), or a lookup: one side, and the result."""

    name: str
    biased: str | None
    input: Tensor
    changes: int  # Of the side, before the use.
    counts: Tensor | None
    result: Tensor

    def factors(self, call: Call, d: Tensor, least: torch.dtype) -> dict[str, Factor]:
        """Give the parameters' factors, from the gradient of the result."""
        if self.counts is not None:
            d = d * self.counts[..., None]
        x, d = call.split(self.input), call.split(d).flatten(1, -2)
        if not x.is_floating_point():
            return {self.name: RowSums(x.flatten(1), d)}
        # Of a parameter that was cast to be multiplied.
        x, d = (
            one.to(torch.promote_types(one.dtype, least)) for one in (x.flatten(1, -2), d)
        )
        bias = {} if self.biased is None else {self.biased: Dense(d.sum(1))}
        return {self.name: OuterProducts(d, x), **bias}


class _Uses(TorchFunctionMode):
    """Observes every use of some parameters."""

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        super().__init__()
        self.entries: list[_Use] = []  # Products and lookups.
        self.other = False  # Whether one is used in any other way.
        self._names = {id(tensor): name for name, tensor in parameters.items()}
        self._alive = list(parameters.values())

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        used = [one for one in tensors_in((args, kwargs)) if id(one) in self._names]
        if used and func is nn.functional.linear:
            return self._multiply(*args, **kwargs)
        if used and func is nn.functional.embedding:
            return self._look_up(*args, **kwargs)
        result = func(*args, **kwargs)
        if used and isinstance(result, Tensor):
            self.other |= getattr(func, "__name__", None) not in _CASTS or len(used) > 1
            # A parameter in another precision stands for it.
            self._names[id(result)] = self._names[id(used[0])]
            self._alive.append(result)
        return result

    def _record(
        self, name: str, biased: str | None, x: Tensor, counts: Tensor | None, y: Tensor
    ) -> Tensor:
        # Part of the graph where a parameter is used twice in a row.
        leaf = y if y.requires_grad else y.requires_grad_()
        self.entries.append(_Use(name, biased, x.detach(), changes(x), counts, leaf))
        return leaf.clone()

    def _multiply(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
        named, biased = self._names.get(id(weight)), self._names.get(id(bias))
        result = nn.functional.linear(input, weight, bias)
        if named is None or id(input) in self._names:
            self.other = True
            return result
        return self._record(named, biased, input, None, result)

    def _look_up(
        self,
        input: Tensor,
        weight: Tensor,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Any:
        self.other |= max_norm is not None or scale_grad_by_freq
        counts = None if padding_idx is None else input != padding_idx % len(weight)
        result = nn.functional.embedding(input, weight)
        return self._record(self._names[id(weight)], None, input, counts, result)

    def once_each(self, names: Iterable[str]) -> bool:
        """Whether each is used once, in this way, and no input was overwritten since."""
        pairs = [(use.name, use.biased) for use in self.entries]
        used = sorted(name for pair in pairs for name in pair if name is not None)
        changed = any(changes(use.input) != use.changes for use in self.entries)
        return used == sorted(names) and not changed and not self.other


def agree(given: Tensor, expected: Tensor) -> bool:
    """Whether two results agree to rounding errors, which softmax and norms enlarge."""
    # Many modules compute in float32 whatever the model's precision.
    coarse = max(torch.finfo(x.dtype).eps for x in (given, expected))
    bound = max(coarse, torch.finfo(torch.float32).eps) ** 0.5
    scale = expected.abs().max() if expected.numel() else 0
    return given.shape == expected.shape and bool(
        ((given - expected).abs() <= bound * scale).all()
    )


def _check_parts(call: Call, gradients: list[Tensor]) -> None:
    for result, gradient in zip(call.results, gradients, strict=True):
        if not call.common and not call.batch.has_parts(result) and gradient.any():
            raise NoExactScore("a result is all completions' together")


def _pull_back(
    results: list[Tensor], gradients: list[Tensor], leaves: list[Tensor]
) -> list[Tensor]:
    """Pull gradients of results back to leaves; zero where nothing leads there."""
    pairs = zip(results, gradients, strict=True)
    reached = [(y, d.to(y)) for y, d in pairs if y.requires_grad]
    if not reached:
        return [torch.zeros_like(leaf) for leaf in leaves]
    outputs, pulled = zip(*reached, strict=True)
    return list(
        torch.autograd.grad(
            outputs, leaves, pulled, allow_unused=True, materialize_grads=True
        )
    )


def run_again(call: Call, gradients: list[Tensor]) -> dict[str, Factor]:
    """Find the factors of a call's parameters by one run of all completions.

    NoExactScore: a parameter is used otherwise, or something else comes out.
    """
    _check_parts(call, gradients)
    values = call.values()
    uses = _Uses(values)
    with uses:
        results = call.run(values)
    if not uses.once_each(call.names):
        raise NoExactScore("its parameters are not multiplied with or looked up once each")
    if not all(agree(*pair) for pair in zip(results, call.results, strict=True)):
        raise NoExactScore("run again it gives something else")
    pulled = _pull_back(results, gradients, [use.result for use in uses.entries])
    factors: dict[str, Factor] = {}
    for use, d in zip(uses.entries, pulled, strict=True):
        factors |= use.factors(call, d, values[use.name].dtype)
    return factors
