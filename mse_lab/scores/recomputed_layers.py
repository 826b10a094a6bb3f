"""Decoder layers recomputed: keep a layer's input, and run it again in the backward pass.

A block's pass then holds the input of every layer, and the activations of one layer, for a
part of the completions at a time. It costs one more forward pass.
(Chen, Xu, Zhang and Guestrin 2016, with the parts' factors joined for cross products.)
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from mse_lab.scores.module_calls import replaced_forward, tensors_in
from mse_lab.scores.recorder import Recorder


def decoder_layers(model: nn.Module) -> list[nn.Module]:
    """List the layers that can be recomputed from their inputs; empty if not all can."""
    layers: list[nn.Module] = [
        module
        for module in model.modules()
        if isinstance(module, GradientCheckpointingLayer)
    ]
    # A layer with parameters of its own, beside its modules', is met as a module itself.
    own = any(list(layer.parameters(recurse=False)) for layer in layers)
    return [] if own else layers


class _LayerCall(NamedTuple):
    """One call of a layer, without its first argument, the hidden states (N, ...).

    A layer may return a tuple. Its entries but the first are not used: they become None.
    """

    forward: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    recorder: Recorder
    step: int
    beside: list[tuple[None, ...]]

    def can_be_cut(self, hidden: Tensor) -> bool:
        """Whether the other arguments are constant, and by completion or common to all."""

        def has_rows(tensor: Tensor) -> bool:
            # Three dimensions may be a table for each head, of which there may be as many.
            tokens = hidden.shape[1] if tensor.dim() == 3 else tensor.shape[1]
            return len(tensor) == 1 or tensor.shape[:2] == (len(hidden), tokens)

        given = tensors_in((self.arguments, self.keywords))
        return not any(tensor.requires_grad for tensor in given) and all(
            tensor.dim() < 3 or has_rows(tensor) for tensor in given
        )

    def parts(self, count: int) -> Iterator[slice]:
        return (slice(at, at + self.step) for at in range(0, count, self.step))

    def run(self, hidden: Tensor, part: slice, count: int) -> Tensor:
        def cut(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(cut(one) for one in value)
            each = isinstance(value, Tensor) and value.dim() > 1 and len(value) == count
            return value[part] if each else value

        keywords = {name: cut(value) for name, value in self.keywords.items()}
        output = self.forward(hidden, *map(cut, self.arguments), **keywords)
        if isinstance(output, tuple):
            self.beside[:] = [(None,) * (len(output) - 1)]
            return output[0]
        return output


class _Recompute(torch.autograd.Function):
    """A layer whose graph is built only when the backward pass reaches it."""

    @staticmethod
    def forward(ctx: Any, call: _LayerCall, hidden: Tensor, anchor: Tensor) -> Tensor:
        ctx.call = call
        ctx.save_for_backward(hidden)
        outputs = []
        for part in call.parts(len(hidden)):
            with call.recorder.passing(len(hidden[part]), counted=part.start > 0):
                outputs.append(call.run(hidden[part], part, len(hidden)))
        return torch.cat(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor | None, None]:
        call, (hidden,), (gradient,) = ctx.call, ctx.saved_tensors, gradients
        pulled = []
        with call.recorder.joining():
            for part in call.parts(len(hidden)):
                x = hidden[part].detach().requires_grad_(ctx.needs_input_grad[1])
                with call.recorder.passing(len(x), counted=True), torch.enable_grad():
                    y = call.run(x, part, len(hidden))
                    if y.requires_grad:
                        y.backward(gradient[part])
                pulled.append(x.grad)
        return None, torch.cat(pulled) if ctx.needs_input_grad[1] else None, None


_recompute: Callable[..., Tensor] = _Recompute.apply


@contextmanager
def recomputed_layers(
    model: nn.Module, recorder: Recorder, step: int | None
) -> Iterator[None]:
    """Have each decoder layer keep its input only, inside the block.

    A layer is recomputed for `step` completions at a time; where it is None, none is.
    """
    # Requires a gradient, so that a layer is reached whose input needs none.
    anchor = torch.zeros((), requires_grad=True)

    def forward(whole: Callable[..., Any], hidden: Tensor, *rest: Any, **more: Any) -> Any:
        call = _LayerCall(whole, rest, more, recorder, step or len(hidden), [])
        if recorder.replaying or not call.can_be_cut(hidden):
            return whole(hidden, *rest, **more)
        output = _recompute(call, hidden, anchor)
        return (output, *call.beside[0]) if call.beside else output

    with ExitStack() as stack:
        for layer in [] if step is None else decoder_layers(model):
            stack.enter_context(replaced_forward(layer, partial(forward, layer.forward)))
        yield
