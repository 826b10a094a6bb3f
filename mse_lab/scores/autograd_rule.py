"""A module that has no rule is run once more and differentiated as it is.

Where its own parameters are only multiplied with or looked up, as routers, scaled
embeddings and patched linear layers do, one run of all completions gives factors
(`together`). Otherwise it is run and differentiated for each completion by itself
(`alone`): slower, and as large as its parameters for every completion. Either way what
comes out again must be what came out before; where it does not, the module's rows are not
the completions'.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mse_lab.scores.factors import Dense, Factor, OuterProducts, RowSums
from mse_lab.scores.module_calls import Call, NoExactScore, tensors_in

# Gradients of single completions in a module's own parameters, held at once.
HELD_BYTES = 2**30

_CASTS = {"to", "type", "type_as", "float", "double", "half", "bfloat16"}


class _Uses(TorchFunctionMode):
    """Sees every use of some parameters: their factors' one side, and their results.

    Attributes:
        linear: (parameter, its bias, input, result) of every product.
        lookups: (parameter, indices, which of them count, result) of every lookup.
        other: Whether one is used in any other way.
    """

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        super().__init__()
        self.linear: list[tuple[str, str | None, Tensor, Tensor]] = []
        self.lookups: list[tuple[str, Tensor, Tensor | None, Tensor]] = []
        self.other = False
        self._names = {id(tensor): name for name, tensor in parameters.items()}
        self._alive = list(parameters.values())
        self._kept: list[tuple[Tensor, int]] = []

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

    def _multiply(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
        named, biased = self._names.get(id(weight)), self._names.get(id(bias))
        result = nn.functional.linear(input, weight, bias)
        if named is None or id(input) in self._names:
            self.other = True
            return result
        self.linear.append((named, biased, self._keep(input), _leaf(result)))
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
        self.other |= max_norm is not None or scale_grad_by_freq
        result = nn.functional.embedding(input, weight)
        counts = None if padding_idx is None else input != padding_idx % len(weight)
        name = self._names[id(weight)]
        self.lookups.append((name, self._keep(input), counts, _leaf(result)))
        return result.clone()

    def _keep(self, input: Tensor) -> Tensor:
        self._kept.append((input, input._version))
        return input.detach()

    @property
    def changed(self) -> bool:
        """Whether an input was written over since its use."""
        return any(tensor._version != version for tensor, version in self._kept)


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


def _check_same(found: Iterable[Tensor], expected: Iterable[Tensor]) -> None:
    if not all(agree(*pair) for pair in zip(found, expected, strict=True)):
        raise NoExactScore("run again it gives something else")


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


def together(call: Call, gradients: list[Tensor]) -> dict[str, Factor]:
    """Find factors by one run of all completions.

    Args:
        call: The call, of a module whose parameters are multiplied with or looked up.
        gradients: Of its results.

    Returns:
        A factor for each of its parameters.

    Raises:
        NoExactScore: A parameter is used otherwise, or something else comes out.
    """
    _check_parts(call, gradients)
    values = call.values()
    uses = _Uses(values)
    with uses:
        results = call.run(values)
    named = [use[0] for use in (*uses.linear, *uses.lookups)]
    named += [use[1] for use in uses.linear if use[1] is not None]
    if uses.other or uses.changed or sorted(call.own) != sorted(named):
        raise NoExactScore("its parameters are not multiplied with or looked up once each")
    _check_same(results, call.results)
    leaves = [use[-1] for use in (*uses.linear, *uses.lookups)]
    pulled = iter(_pull_back(results, gradients, leaves))
    found: dict[str, Factor] = {}
    for name, biased, x, _ in uses.linear:
        x, d = (call.split(tensor).flatten(1, -2) for tensor in (x, next(pulled)))
        # Of a parameter that was cast to be multiplied.
        x, d = (
            one.to(torch.promote_types(one.dtype, values[name].dtype)) for one in (x, d)
        )
        found[name] = OuterProducts(d, x)
        if biased is not None:
            found[biased] = Dense(d.sum(1))
    for name, index, counts, _ in uses.lookups:
        d = next(pulled)
        d = d if counts is None else d * counts[..., None]
        found[name] = RowSums(call.split(index).flatten(1), call.split(d).flatten(1, -2))
    return found


def alone(call: Call, gradients: list[Tensor]) -> dict[str, Factor]:
    """Find gradients by running and differentiating the module for each completion.

    Args:
        call: The call.
        gradients: Of its results.

    Returns:
        A factor for each of its parameters.

    Raises:
        NoExactScore: What comes out is not what came out before, or it does not fit.
    """
    _check_parts(call, gradients)
    values = {local: value.requires_grad_() for local, value in call.values().items()}
    _check_size(call, values)
    rows = []
    for index in range(call.batch.rows):
        try:
            results = call.run(values, index)
        except (RuntimeError, ValueError, IndexError) as error:
            # The module's own: it cannot be run on a part of what it was given.
            reason = str(error).strip().splitlines()[0]
            raise NoExactScore(f"run for one it fails: {reason}") from None
        expected, pulled = (
            [call.batch.part(tensor, index) for tensor in tensors]
            for tensors in (call.results, gradients)
        )
        _check_same(results, expected)
        rows.append(_pull_back(results, pulled, list(values.values())))
    stacked = (torch.stack(column) for column in zip(*rows, strict=True))
    return {local: Dense(each) for local, each in zip(values, stacked, strict=True)}


def _check_size(call: Call, values: dict[str, Tensor]) -> None:
    """See that the gradients of single completions fit."""
    needed = {name: call.batch.rows * value.nbytes for name, value in values.items()}
    total = sum(needed.values())
    if total > HELD_BYTES:
        large = [name for name, size in needed.items() if size > HELD_BYTES / len(needed)]
        raise NoExactScore(
            f"{total / 2**30:.1f} GiB of completions' gradients, unfactored",
            [call.own[name] for name in large],
        )
