"""Hooks: a module's calls in the forward pass, its gradients in the backward pass."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import register_multi_grad_hook
from torch.utils._pytree import tree_map_only
from transformers.pytorch_utils import Conv1D

from mse_lab.policy.sharding import gather_around, is_sharded
from mse_lab.scores.module_calls import Batch, Call, results_in, tensors_in


def is_product(module: nn.Module) -> bool:
    """Whether a module multiplies with a matrix, and does not keep the product."""
    return type(module) in (nn.Linear, Conv1D)


def _make_contiguous(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Make factors contiguous: a strided one would be multiplied row by row."""
    return tuple(tree_map_only(Tensor, Tensor.contiguous, args))


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
    if several:
        # One result may be computed from another: what the model goes on with is a copy,
        # whose gradient leaves that way out.
        tensor = tensor.clone()
    elif tensor._is_view() and is_product(call.module):
        # A view that is changed in place loses its hooks, and products are often views.
        tensor = torch.ops.aten._unsafe_view(tensor, tensor.shape)
    exposed.append(tensor)
    return tensor


class ModuleHooks:
    """Meets calls in the forward pass and gradients in the backward pass."""

    def __init__(self, model: nn.Module, rows: int, shared: int) -> None:
        # Whether a rule runs a module once more, outside the pass.
        self.replaying = False
        self.rows = rows  # Completions of the pass under way.
        self._model, self._sharded = model, is_sharded(model)
        self._shared = shared
        self._tokens = 0

    def meet_call(self, call: Call) -> bool:
        """Take a call, and say whether gradients are to be met."""
        raise NotImplementedError

    def meet_gradients(self, call: Call, gradients: list[Tensor]) -> None:
        """Take the gradients of its results; its module may be run once more."""
        raise NotImplementedError

    @contextmanager
    def hooked(self, owned: Mapping[str, dict[str, str]]) -> Iterator[None]:
        """Meet calls of modules, with what they answer for, inside the block."""
        with ExitStack() as self._stack:
            see = self._model.register_forward_pre_hook(self._see_tokens, with_kwargs=True)
            self._stack.callback(see.remove)
            for owner, own in owned.items():
                module = self._model.get_submodule(owner)
                hook = partial(self._forward, owner, own)
                handle = module.register_forward_hook(hook, with_kwargs=True)
                self._stack.callback(handle.remove)
                if is_product(module):
                    handle = module.register_forward_pre_hook(_make_contiguous)
                    self._stack.callback(handle.remove)
            yield

    def _see_tokens(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        # The head in slices runs the model once more, on a single token.
        self._tokens = self._tokens or tensors_in((args, kwargs))[0].shape[1]

    def _forward(
        self,
        owner: str,
        own: dict[str, str],
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
    ) -> Any:
        if self.replaying:
            return None
        batch = Batch(self.rows, self._tokens, self._shared)
        call = Call(owner, module, own, args, kwargs, results_in(output), batch)
        if not self.meet_call(call):
            return None
        exposed: list[Tensor] = []
        expose = partial(_expose, call, len(call.results) > 1, exposed)
        output = tree_map_only(Tensor, expose, output)
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
        found = [
            torch.zeros_like(call.results[at]) if d is None else d
            for at, d in enumerate(gradients)
        ]
        self.replaying = True
        if self._sharded:
            gather_around(self._model, call.owner)
        try:
            self.meet_gradients(call, found)
        finally:
            self.replaying = False
