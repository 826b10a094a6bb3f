"""Hooks: a module's calls in the forward pass, its gradients in the backward pass.

Tensors come as (N, ...), completions first; as (N T, ...), their tokens flattened, in
mixtures of experts; and as (1, ...), one for all completions, such as position embeddings.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import register_multi_grad_hook

from mse_lab.errors import InputError


def map_tensors(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Apply a function to the tensors in nested tuples, lists and dictionaries.

    >>> map_tensors(lambda tensor: tensor + 1, {"a": [torch.tensor(1), "b"]})
    {'a': [tensor(2), 'b']}
    """
    within = partial(map_tensors, change)
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(within, value))
    if isinstance(value, list | tuple):
        return type(value)(map(within, value))
    if isinstance(value, dict):
        value = copy(value)
        for key, part in value.items():
            value[key] = within(part)
    return value


def tensors_in(value: Any) -> list[Tensor]:
    """List the tensors in nested tuples, lists and dictionaries."""
    tensors: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    map_tensors(note, value)
    return tensors


def results_in(value: Any) -> list[Tensor]:
    """List the tensors that a gradient can come back through, those of real numbers."""
    return [tensor for tensor in tensors_in(value) if tensor.is_floating_point()]


def changes(tensor: Tensor) -> int:
    """Count how often a tensor was changed in place."""
    return tensor._version  # torch gives the count by no public name.


def _lead(tensor: Tensor) -> int:
    return tensor.shape[0] if tensor.dim() else 1


class PassLayout(NamedTuple):
    """How the completions of a pass lie in its tensors."""

    rows: int  # N, the completions.
    tokens: int  # T, the tokens of each that the model reads.
    shared: int = 0  # The first of these, the prompt's, which are the same for all.

    def split(self, tensor: Tensor) -> Tensor | None:
        """View a tensor as (N, tokens, ...); None where its rows are not completions'."""
        features = tensor.is_floating_point()
        if _lead(tensor) == self.rows and tensor.dim() > 1 + features:
            return tensor
        if _lead(tensor) == self.rows * self.tokens and tensor.dim() > features:
            return tensor.unflatten(0, (self.rows, self.tokens))
        return None

    def has_parts(self, tensor: Tensor) -> bool:
        """Whether each completion has its part of a tensor, which is not common to all."""
        return _lead(tensor) in (self.rows, self.rows * self.tokens)


class NoExactScore(Exception):
    """A rule cannot compute a call's scores; says why."""


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
    results: list[Tensor]
    batch: PassLayout

    def __post_init__(self) -> None:
        given = self.args, self.kwargs, self.results
        self.args, self.kwargs, self.results = map_tensors(Tensor.detach, given)
        self.inputs = tensors_in((self.args, self.kwargs))
        self._changes = [changes(tensor) for tensor in self.inputs]

    @property
    def common(self) -> bool:
        """Whether it is one call for all completions, such as position embeddings."""
        alike = bool(self.inputs) and all(_lead(tensor) == 1 for tensor in self.inputs)
        return alike and self.batch.rows > 1

    @property
    def changed(self) -> bool:
        """Whether an input was written over since the call."""
        return [changes(tensor) for tensor in self.inputs] != self._changes

    @property
    def attributed(self) -> bool:
        """Whether the rows of inputs and results can be assigned to completions."""
        if self.common:
            return all(_lead(tensor) == 1 for tensor in self.results)
        return all(
            any(self.batch.split(tensor) is not None for tensor in tensors)
            for tensors in (self.inputs, self.results)
        )

    def split(self, tensor: Tensor) -> Tensor:
        """View a tensor of the call as (N, tokens, ...), also where it is common to all."""
        if self.common:
            return tensor.expand(self.batch.rows, *tensor.shape[1:])
        parts = self.batch.split(tensor)
        if parts is None:
            raise NoExactScore("its batch is not the completions'")
        return parts

    def values(self) -> dict[str, Tensor]:
        """Give the parameters' values, by their names inside the module."""
        return {local: self.module.get_parameter(local).detach() for local in self.names}

    def run(self, values: dict[str, Tensor]) -> list[Tensor]:
        """Run the module once more with these values of parameters."""
        with torch.enable_grad():
            output = torch.func.functional_call(
                self.module, values, self.args, self.kwargs, tie_weights=False
            )
        return results_in(output)


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


def _expose(call: Call, several: bool, exposed: list[Tensor], tensor: Tensor) -> Tensor:
    """Return a result for the model to go on with, whose gradient by completion is seen."""
    if not tensor.is_floating_point():
        return tensor
    if call.common:
        tensor = tensor.expand(call.batch.rows, *tensor.shape[1:])
    if not torch.is_grad_enabled():
        return tensor
    if not tensor.requires_grad:
        tensor = tensor.detach().requires_grad_()
        exposed.append(tensor)
        # A model may add to what a layer gives in place, which a leaf forbids.
        looked_up = not any(given.is_floating_point() for given in call.inputs)
        return tensor if looked_up else tensor.clone()
    if several or call.common or _is_view(tensor):
        # One result may be computed from another, and a view loses its hooks where it is
        # changed in place: the model goes on with a copy.
        tensor = tensor.clone()
    exposed.append(tensor)
    return tensor


class ModuleHooks:
    """Meets calls in the forward pass and gradients in the backward pass."""

    def __init__(self, model: nn.Module, rows: int, shared: int) -> None:
        # Whether a rule runs a module once more, outside the pass.
        self.replaying = False
        self.rows = rows  # Completions of the pass under way.
        self.tokens = 0  # Tokens of each that the model reads, once it does.
        self.shared = shared  # The first of these, the prompt's.
        self._model = model

    def take_call(self, call: Call) -> None:
        """Take a call whose rows are the completions'."""
        raise NotImplementedError

    def take_gradients(self, call: Call, gradients: list[Tensor]) -> None:
        """Take the gradients of its results; its module may be run once more.

        NoExactScore: no rule, or not the module's, holds for it.
        """
        raise NotImplementedError

    @contextmanager
    def hooked(self, owned: Mapping[str, dict[str, str]]) -> Iterator[None]:
        """Meet calls of modules, with what they answer for, inside the block."""
        with ExitStack() as self._stack:
            see = self._model.register_forward_pre_hook(self._see_tokens, with_kwargs=True)
            self._stack.callback(see.remove)
            for owner, names in owned.items():
                module = self._model.get_submodule(owner)
                hook = partial(self._forward, owner, names)
                handle = module.register_forward_hook(hook, with_kwargs=True)
                self._stack.callback(handle.remove)
            yield

    def _see_tokens(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        # The head in slices runs the model once more, on a single token.
        self.tokens = self.tokens or tensors_in((args, kwargs))[0].shape[1]

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
        batch = PassLayout(self.rows, self.tokens, self.shared)
        call = Call(owner, module, names, args, kwargs, results_in(output), batch)
        if not call.attributed:
            raise no_rule(owner, module, "its batch is not the completions'")
        self.take_call(call)
        exposed: list[Tensor] = []
        expose = partial(_expose, call, len(call.results) > 1, exposed)
        output = map_tensors(expose, output)
        back = partial(self._backward, call)
        if len(exposed) == 1:
            exposed[0].register_hook(lambda d: back([d]))
        elif exposed:
            # Such a hook holds on to the graph, in a circle: it is removed at the end.
            handle = register_multi_grad_hook(exposed, back)
            self._stack.callback(handle.remove)
        return output

    def _backward(self, call: Call, gradients: Sequence[Tensor | None]) -> None:
        # None: a result that the loss does not depend on, one of several.
        whole = [
            torch.zeros_like(call.results[at]) if d is None else d
            for at, d in enumerate(gradients)
        ]
        if call.changed:
            raise no_rule(call.owner, call.module, "its input is changed after the call")
        self.replaying = True
        try:
            self.take_gradients(call, whole)
        except NoExactScore as no:
            raise no_rule(call.owner, call.module, str(no)) from None
        finally:
            self.replaying = False
