"""Replays: a module that has no rule is run once more and differentiated as it is.

Where its own parameters are only multiplied with or looked up, as routers, scaled
embeddings and patched linear layers do, one run of all completions gives factors.
Otherwise it is run and differentiated for each completion alone: slower, and as large as
its parameters for every completion. Either way what comes out again must be what came out
before; where it does not, the module's rows are not the completions', and its parent is
differentiated instead.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mse_lab.scores.factors import Dense, Factor, OuterProducts, RowSums
from mse_lab.scores.module_calls import Call, Unattributed, tensors_in

# Gradients of single completions in a module's own parameters, held at once.
HELD_BYTES = 2**30

_CASTS = {"to", "type", "type_as", "float", "double", "half", "bfloat16"}


class TooLarge(Exception):
    """The gradients of single completions would take too much memory.

    Attributes:
        names: The parameters.
    """

    def __init__(self, names: list[str], needed: int) -> None:
        super().__init__(f"{needed / 2**30:.1f} GiB of completions' gradients, unfactored")
        self.names = names


class _OtherUse(Exception):
    """A parameter is used in another way than multiplied with or looked up."""


class _Uses(TorchFunctionMode):
    """Sees every use of some parameters: their factors' one side, and their results.

    Attributes:
        linear: (parameter, its bias, input, result) of every product.
        lookups: (parameter, indices, which of them count, result) of every lookup.
    """

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        super().__init__()
        self.linear: list[tuple[str, str | None, Tensor, Tensor]] = []
        self.lookups: list[tuple[str, Tensor, Tensor | None, Tensor]] = []
        self._names = {id(tensor): name for name, tensor in parameters.items()}
        self._alive = list(parameters.values())
        self._kept: list[tuple[Tensor, int]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        used = [one for one in tensors_in((args, kwargs)) if id(one) in self._names]
        if not used:
            return func(*args, **kwargs)
        if func is nn.functional.linear:
            return self._multiply(*args, **kwargs)
        if func is nn.functional.embedding:
            return self._look_up(*args, **kwargs)
        result = func(*args, **kwargs)
        if isinstance(result, Tensor):
            if getattr(func, "__name__", None) not in _CASTS or len(used) > 1:
                raise _OtherUse
            # A parameter in another precision stands for it.
            self._names[id(result)] = self._names[id(used[0])]
            self._alive.append(result)
        return result

    def _multiply(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
        named, biased = self._names.get(id(weight)), self._names.get(id(bias))
        if named is None or id(input) in self._names:
            raise _OtherUse
        result = _leaf(nn.functional.linear(input, weight, bias))
        self.linear.append((named, biased, self._keep(input), result))
        return result.clone()

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
        if max_norm is not None or scale_grad_by_freq:
            raise _OtherUse
        result = _leaf(nn.functional.embedding(input, weight))
        counts = None if padding_idx is None else input != padding_idx % len(weight)
        self.lookups.append((self._names[id(weight)], self._keep(input), counts, result))
        return result.clone()

    def _keep(self, input: Tensor) -> Tensor:
        self._kept.append((input, input._version))
        return input.detach()

    def refuse_changed(self) -> None:
        """Raise where an input was written over since its use."""
        if any(tensor._version != version for tensor, version in self._kept):
            raise _OtherUse


def _leaf(tensor: Tensor) -> Tensor:
    # Part of the graph where a parameter is used twice in a row.
    return tensor if tensor.requires_grad else tensor.requires_grad_()


def agree(found: Tensor, expected: Tensor) -> bool:
    """Whether two results are the same to rounding, of which softmax and norms do much."""
    # Many modules compute in float32 whatever the model's precision.
    coarse = max(torch.finfo(x.dtype).eps for x in (found, expected))
    bound = max(coarse, torch.finfo(torch.float32).eps) ** 0.5
    scale = expected.abs().max() if expected.numel() else 0
    return found.shape == expected.shape and bool(
        ((found - expected).abs() <= bound * scale).all()
    )


def _check_same(call: Call, found: Iterable[Tensor], expected: Iterable[Tensor]) -> None:
    if not all(agree(*pair) for pair in zip(found, expected, strict=True)):
        raise Unattributed(call.owner, "run again it gives something else")


def _pull_back(
    results: list[Tensor], gradients: list[Tensor], leaves: list[Tensor]
) -> list[Tensor]:
    """Pull gradients of results back to leaves; zero where nothing leads there."""
    pairs = zip(results, gradients, strict=True)
    reached = [(y, d.to(y)) for y, d in pairs if y.requires_grad]
    if not reached:
        return [torch.zeros_like(leaf) for leaf in leaves]
    outputs, pulled = zip(*reached, strict=True)
    found = torch.autograd.grad(outputs, leaves, pulled, allow_unused=True)
    return [
        torch.zeros_like(leaf) if one is None else one
        for leaf, one in zip(leaves, found, strict=True)
    ]


def _at_least(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, dtype))


def _from_uses(call: Call, gradients: list[Tensor]) -> dict[str, Factor] | None:
    """Give factors from one run of all completions; None where that cannot be."""
    values = call.values()
    uses = _Uses(values)
    try:
        with uses:
            results = call.run(values)
        uses.refuse_changed()
    except _OtherUse:
        return None
    _check_same(call, results, call.results)
    leaves = [use[-1] for use in (*uses.linear, *uses.lookups)]
    pulled = iter(_pull_back(results, gradients, leaves))
    found: list[tuple[str, Factor]] = []

    def split(tensor: Tensor) -> Tensor:
        if call.common:
            return tensor.expand(call.batch.rows, *tensor.shape[1:])
        parts = call.batch.split(tensor)
        if parts is None:
            raise _OtherUse
        return parts

    try:
        for name, biased, x, _ in uses.linear:
            x, d = (split(tensor).flatten(1, -2) for tensor in (x, next(pulled)))
            # Of a parameter that was cast to be multiplied.
            x, d = (_at_least(tensor, values[name].dtype) for tensor in (x, d))
            found.append((name, OuterProducts(d, x)))
            if biased is not None:
                found.append((biased, Dense(d.sum(1))))
        for name, index, counts, _ in uses.lookups:
            d = next(pulled)
            d = d if counts is None else d * counts[..., None]
            found.append((name, RowSums(split(index).flatten(1), split(d).flatten(1, -2))))
    except _OtherUse:
        return None
    return dict(found) if sorted(call.own) == sorted(name for name, _ in found) else None


def _alone(call: Call, gradients: list[Tensor]) -> dict[str, Factor]:
    """Run and differentiate the module for each completion alone."""
    values = {local: value.requires_grad_() for local, value in call.values().items()}
    needed = {
        local: call.batch.rows * value.numel() * value.element_size()
        for local, value in values.items()
    }
    if sum(needed.values()) > HELD_BYTES:
        large = [local for local, size in needed.items() if size > HELD_BYTES / len(needed)]
        raise TooLarge([call.own[local] for local in large], sum(needed.values()))
    rows = []
    for index in range(call.batch.rows):
        try:
            results = call.run(values, index)
        except (RuntimeError, ValueError, IndexError) as error:
            # The module's own: it cannot be run on a part of what it was given.
            reason = str(error).strip().splitlines()[0]
            raise Unattributed(call.owner, f"run for one it fails: {reason}") from None
        parts = [
            [call.batch.part(tensor, index) for tensor in tensors]
            for tensors in (call.results, gradients)
        ]
        _check_same(call, results, parts[0])
        rows.append(_pull_back(results, parts[1], list(values.values())))
    stacked = (torch.stack(column) for column in zip(*rows, strict=True))
    return {local: Dense(each) for local, each in zip(values, stacked, strict=True)}


def replayed_factors(call: Call, gradients: list[Tensor]) -> dict[str, Factor]:
    """Find the factors of a call's own parameters by running its module once more.

    Args:
        call: The call.
        gradients: Of its results.

    Returns:
        A factor for each.

    Raises:
        Unattributed: What comes out is not what came out before.
        TooLarge: The gradients of single completions would not fit.
    """
    for result, gradient in zip(call.results, gradients, strict=True):
        if not call.common and not call.batch.has_parts(result) and gradient.any():
            raise Unattributed(call.owner, "a result is all completions' together")
    return _from_uses(call, gradients) or _alone(call, gradients)
