"""The footprint of a policy: the bytes that one completion takes in each pass.

It is measured on one trial completion of the longest prompt, by what autograd keeps for the
backward pass. So it depends on shapes, kernels and precision alone, is the same on every
start and in every process, and no architecture needs a formula.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mse_lab.data.location import loading
from mse_lab.policy.completions import Completions
from mse_lab.policy.log_probabilities import (
    SharedPrefix,
    completion_log_probs,
    sequence_log_probs,
)
from mse_lab.policy.policy import Policy
from mse_lab.scores.output_head import SlicedHead
from mse_lab.scores.recorder import decoder_layers

# Copies of a completion's logits that exist at once: as computed, divided by the
# temperature, their logarithms, and gradients. While drawing, two of them are in float64.
COPIES_OF_LOGITS = 5


@dataclass(frozen=True)
class Footprint:
    """Bytes, for one completion of the longest prompt unless said otherwise."""

    weights: int  # The model's weights, whole.
    gradient: int  # One reference vector in the parameters that count, whole.
    kept: int  # What a scoring pass keeps for its backward pass, up to the output head.
    head: int  # Logits over a completion's tokens, their copies and gradients.
    inputs: int  # The inputs of all decoder layers; 0 where layers cannot be recomputed.
    layer: int  # What the decoder layer that keeps most keeps.
    factors: int  # Inputs and output gradients of a layer's modules, of the largest layer.
    reference: int  # What a reference pass keeps; all completions share the prompt's part.
    drawing: int  # Keys and values, and the logits of one step, while drawing.
    largest: int  # The gradient of the largest parameter.
    sliceable: bool  # Whether the head can be run in slices of the vocabulary.


class _Meter:
    """Counts the bytes of distinct tensors that autograd keeps, without parameters."""

    def __init__(self, model: nn.Module) -> None:
        self.total = 0
        self._seen = {_storage(parameter) for parameter in model.parameters()}
        self._alive: list[Tensor] = []

    def keep(self, tensor: Tensor) -> Tensor:
        if _storage(tensor) not in self._seen:
            self._seen.add(_storage(tensor))
            # While it exists no other tensor can have its address.
            self._alive.append(tensor)
            self.total += tensor.untyped_storage().nbytes()
        return tensor

    @contextmanager
    def measuring(self) -> Iterator[None]:
        hooks = torch.autograd.graph.saved_tensors_hooks
        with hooks(self.keep, lambda tensor: tensor), torch.enable_grad():
            yield


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _nbytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _measure_layers(policy: Policy, prompt: list[int], some: Completions) -> dict[str, Any]:
    """Score completions; count what is kept in all, and the most that one layer keeps.

    By the same pass, say whether the head can be run in slices.
    """
    meter, inputs, kept, factors = _Meter(policy.model), 0, [0], [0]
    model, head = policy.model, policy.model.get_output_embeddings()
    first: list[Tensor] = []  # Of the first token: what the head is given, its logits.

    def enter(_: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        nonlocal inputs
        inputs += _nbytes(arguments[:1])
        kept.append(-meter.total)
        factors.append(0)

    def pass_on(_: nn.Module, arguments: tuple[object, ...], output: object) -> None:
        tensors = [value for value in (*arguments, output) if isinstance(value, Tensor)]
        factors[-1] += 4 * sum(tensor.numel() for tensor in tensors)

    def leave(*_: object) -> None:
        kept[-1] += meter.total

    def note(tensor: Tensor) -> None:
        first.append(tensor[:, :1].detach().clone())

    with ExitStack() as hooks:
        hooks.enter_context(head.register_forward_pre_hook(lambda _, states: note(*states)))
        hooks.enter_context(model.register_forward_hook(lambda *call: note(call[2].logits)))
        for layer in decoder_layers(model):
            hooks.enter_context(layer.register_forward_pre_hook(enter))
            for module in layer.modules():
                if list(module.parameters(recurse=False)):
                    hooks.enter_context(module.register_forward_hook(pass_on))
            hooks.enter_context(layer.register_forward_hook(leave))
        with meter.measuring(), policy.differentiable():
            sequence_log_probs(policy, prompt, some)
    return {
        "kept": meter.total,
        "inputs": inputs,
        "layer": max(kept),
        "factors": max(factors),
        "sliceable": type(head) is nn.Linear and _can_slice(policy, first[0], first[-1]),
    }


@torch.no_grad()
def _can_slice(policy: Policy, hidden: Tensor, logits: Tensor) -> bool:
    """Whether a slice of logits from hidden states is that of the logits.

    The second half shows also what is done to the first entries or the last ones.
    """
    head, whole = SlicedHead(policy), policy.scaled(logits)
    half = slice(whole.shape[-1] // 2, whole.shape[-1])
    try:
        again = head.logits(hidden.to(head.module.weight.device), half)[1].to(whole.device)
    except (AttributeError, RuntimeError, TypeError):
        return False  # a model that cannot be run from its last hidden states
    expected = whole[..., half]
    return again.shape == expected.shape and torch.allclose(again, expected, atol=1e-2)


def measure_footprint(policy: Policy, prompt: list[int], new_tokens: int) -> Footprint:
    """Measure one trial completion of the longest prompt, with `new_tokens` tokens."""
    trial = Completions(
        np.zeros((1, new_tokens), np.int64),
        np.array([new_tokens]),
        np.zeros(1),
        np.zeros(1, np.bool_),
    )
    vocabulary = policy.model.get_output_embeddings().weight.shape[0]
    logits = COPIES_OF_LOGITS * 4 * vocabulary
    layers, meter = _measure_layers(policy, prompt, trial), _Meter(policy.model)
    with loading(policy.location, "the model"), policy.differentiable():
        with torch.no_grad():
            prefix = SharedPrefix(policy, prompt)
        with meter.measuring():
            completion_log_probs(policy, prefix, trial)
    if prefix.cache is None:
        # Every step reads the whole text, and takes no more than a pass that is kept.
        read = meter.total
    else:
        keys = _nbytes(prefix.tensors()) / max(1, len(prompt) - 1)
        read = int(keys * (len(prompt) + new_tokens))
    return Footprint(
        weights=sum(parameter.nbytes for parameter in policy.model.parameters()),
        gradient=4 * policy.size,
        head=new_tokens * logits,
        reference=meter.total + new_tokens * logits,
        drawing=read + 2 * logits,
        largest=4 * max(each.numel() for each in policy.parameters.values()),
        **layers,
    )
