"""Hooks: a module's calls in the forward pass, their gradients in the backward pass.

Tensors come as (N, ...), completions first; and as (1, ...), one for all completions, such
as position embeddings.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from mse_lab.errors import InputError


def _lead(tensor: Tensor) -> int:
    return tensor.shape[0] if tensor.dim() else 1


def _changes(tensor: Tensor) -> int:
    """Count how often a tensor was changed in place."""
    return tensor._version  # torch gives the count by no public name.


class NoRule(InputError):
    """A module has no rule, or its rule does not hold; says which, and why."""


def no_rule(owner: str, module: nn.Module, reason: str) -> NoRule:
    """Say that a module has no rule."""
    return NoRule(f"{owner} ({type(module).__name__}) has no rule: {reason}")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means too little memory, and says nothing about a module."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # What PyTorch's allocator of host memory raises.
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


@dataclass
class Call:
    """One call of a module that answers for parameters, its tensors outside any graph.

    `names` are the parameters that it answers for: name inside the module -> name.
    """

    owner: str
    module: nn.Module
    names: dict[str, str]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    rows: int  # N, the completions of the pass.
    tokens: int = 0  # T, the tokens of each that the model reads.
    shared: int = 0  # The first of these, the prompt's, which are the same for all.

    def __post_init__(self) -> None:
        def cut(each: Any) -> Any:
            return each.detach() if isinstance(each, Tensor) else each

        self.args, self.result = tuple(map(cut, self.args)), cut(self.result)
        self.kwargs = {name: cut(each) for name, each in self.kwargs.items()}
        given = (*self.args, *self.kwargs.values())
        self.inputs = [each for each in given if isinstance(each, Tensor)]
        self._changes = [*map(_changes, self.inputs)]

    @property
    def common(self) -> bool:
        """Whether it is one call for all completions, such as position embeddings."""
        alike = bool(self.inputs) and all(_lead(each) == 1 for each in self.inputs)
        return alike and self.rows > 1

    @property
    def changed(self) -> bool:
        """Whether an input was written over since the call."""
        return [*map(_changes, self.inputs)] != self._changes

    @property
    def attributed(self) -> bool:
        """Whether it gives one tensor, and its rows can be assigned to completions."""
        if not isinstance(self.result, Tensor):
            return False
        if self.common:
            return _lead(self.result) == 1
        given = any(map(self._has_rows, self.inputs))
        return given and self._has_rows(self.result)

    def _has_rows(self, tensor: Tensor) -> bool:
        return _lead(tensor) == self.rows and tensor.dim() > 1 + tensor.is_floating_point()

    def split(self, tensor: Tensor) -> Tensor:
        """View a tensor of the call as (N, ...), also where it is common to all."""
        return tensor.expand(self.rows, *tensor.shape[1:]) if self.common else tensor

    def values(self) -> dict[str, Tensor]:
        """Give the parameters' values, by their names inside the module."""
        return {local: self.module.get_parameter(local).detach() for local in self.names}

    def run(self, values: Mapping[str, Tensor]) -> Tensor:
        """Run the module once more with these values of parameters."""
        with torch.enable_grad():
            result: Tensor = torch.func.functional_call(
                self.module, dict(values), self.args, self.kwargs, tie_weights=False
            )
        return result


@contextmanager
def replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Let calling the module call `forward` instead, its hooks as before."""
    before = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if before is None:
            del module.forward
        else:
            module.forward = before


def _is_view(tensor: Tensor) -> bool:
    """Whether it is other tensors' memory in another shape, as products with biases are."""
    step = tensor.grad_fn
    return step is not None and step.name() == "ViewBackward0"


class ModuleHooks:
    """Meets calls in the forward pass and gradients in the backward pass."""

    def __init__(
        self, model: nn.Module, rows: int, tokens: int = 0, shared: int = 0
    ) -> None:
        """Meet those of a pass; its layout is as in `Call`."""
        # Whether a rule runs a module once more, outside the pass.
        self.replaying = False
        self._model, self._layout = model, (rows, tokens, shared)

    def take_call(self, call: Call) -> None:
        """Take a call whose rows are the completions'."""
        raise NotImplementedError

    def take_gradient(self, call: Call, d: Tensor) -> None:
        """Take the gradient of its result; its module may be run once more."""
        raise NotImplementedError

    @contextmanager
    def hooked(self, owned: Mapping[str, dict[str, str]]) -> Iterator[None]:
        """Meet calls of modules, with what they answer for, inside the block."""
        with ExitStack() as stack:
            for owner, names in owned.items():
                module = self._model.get_submodule(owner)
                hook = partial(self._forward, owner, names)
                handle = module.register_forward_hook(hook, with_kwargs=True)
                stack.callback(handle.remove)
            yield

    def _forward(
        self,
        owner: str,
        names: dict[str, str],
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
    ) -> Any:
        if self.replaying:
            return None
        call = Call(owner, module, names, args, kwargs, output, *self._layout)
        if not call.attributed:
            raise no_rule(owner, module, "it does not give one row for each completion")
        self.take_call(call)
        return self._expose(call, output)

    def _expose(self, call: Call, result: Tensor) -> Tensor:
        """Return a result for the model to go on with, whose gradient by row is seen."""
        exposed = call.split(result)
        if not exposed.requires_grad:
            exposed = exposed.detach().requires_grad_()
            exposed.register_hook(partial(self._backward, call))
            # A model may add to what a layer gives in place, which a leaf forbids.
            looked_up = not any(given.is_floating_point() for given in call.inputs)
            return exposed if looked_up else exposed.clone()
        if call.common or _is_view(exposed):
            # A view loses its hooks where it is changed in place: the model goes on with a
            # copy.
            exposed = exposed.clone()
        exposed.register_hook(partial(self._backward, call))
        return exposed

    def _backward(self, call: Call, d: Tensor) -> None:
        if call.changed:
            raise no_rule(call.owner, call.module, "its input is changed after the call")
        self.replaying = True
        try:
            self.take_gradient(call, d)
        finally:
            self.replaying = False
