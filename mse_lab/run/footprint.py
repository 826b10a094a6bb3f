"""The footprint of a policy: what one completion takes in each pass, in bytes.

It is read off one trial completion of the longest prompt: autograd is asked what it keeps
for the backward pass. So it is a function of shapes, kernels and precision alone, the same
on every start and in every process, and no architecture needs a formula.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy
from mse_lab.policy.shared_prefix import SharedPrefix
from mse_lab.scores.output_head import SlicedHead
from mse_lab.scores.recomputed_layers import decoder_layers
from mse_lab.scores.reference import completion_log_probs
from mse_lab.scores.scores import sequence_log_probs

# Copies of a completion's logits that live at once: as computed, divided by the
# temperature, their logarithms, and gradients; while drawing two are in float64.
COPIES_OF_LOGITS = 5


@dataclass(frozen=True)
class Footprint:
    """Bytes, of one completion of the longest prompt where nothing else is said.

    Attributes:
        weights: The model's weights, whole.
        gradient: One reference vector in the parameters that count, whole.
        kept: What a scoring pass keeps for the way back, up to the output head.
        head: Logits over a completion's tokens, their copies and gradients.
        inputs: The inputs of all decoder layers; 0 where layers cannot be recomputed.
        layer: What a decoder layer keeps, the most of any.
        factors: Inputs and output gradients of a layer's modules, the most of any.
        reference: What a reference pass keeps, the prompt's part shared.
        drawing: Keys, values and the logits of a step while drawing.
        sliceable: Whether the head can be run in slices of the vocabulary.
    """

    weights: int
    gradient: int
    kept: int
    head: int
    inputs: int
    layer: int
    factors: int
    reference: int
    drawing: int
    sliceable: bool


class _Meter:
    """Bytes of distinct tensors that autograd keeps, parameters left out."""

    def __init__(self, model: nn.Module) -> None:
        self.total = 0
        self._seen = {_storage(parameter) for parameter in model.parameters()}
        self._alive: list[Tensor] = []

    def keep(self, tensor: Tensor) -> Tensor:
        if _storage(tensor) not in self._seen:
            self._seen.add(_storage(tensor))
            # While it lives no other tensor can have its address.
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


def _nbytes(tensors: Iterator[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _factor_bytes(layer: nn.Module, found: list[int]) -> ExitStack:
    """Add up inputs and outputs of the layer's modules with parameters, until closed."""
    stack = ExitStack()

    def meet(_: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        tensors = [one for one in (*inputs, output) if isinstance(one, Tensor)]
        found.append(4 * sum(tensor.numel() for tensor in tensors))

    for module in layer.modules():
        if list(module.parameters(recurse=False)):
            stack.callback(module.register_forward_hook(meet).remove)
    return stack


def _measure_layers(
    policy: Policy, prompt: list[int], trial: Completions
) -> tuple[int, int, int, int]:
    """Score the trial; what it keeps in all, inputs of layers, most of one, its factors."""
    meter, starts = _Meter(policy.model), dict[nn.Module, int]()
    inputs, kept, factors = [0], [0], [0]
    layers = decoder_layers(policy.model)
    with ExitStack() as stack:
        for layer in layers:
            found: list[int] = []

            def enter(
                layer: nn.Module, arguments: tuple[Tensor, ...], found: list[int] = found
            ) -> None:
                found.clear()
                starts[layer] = meter.total
                inputs.append(_nbytes(iter(arguments[:1])))

            def leave(layer: nn.Module, *_: object, found: list[int] = found) -> None:
                kept.append(meter.total - starts[layer])
                factors.append(sum(found))

            stack.callback(layer.register_forward_pre_hook(enter).remove)
            stack.enter_context(_factor_bytes(layer, found))
            stack.callback(layer.register_forward_hook(leave).remove)
        with meter.measuring(), policy.differentiable():
            sequence_log_probs(policy, prompt, trial)
    return meter.total, sum(inputs), max(kept), max(factors)


def _can_slice(policy: Policy, prompt: list[int]) -> bool:
    """Whether logits formed in slices are the logits, on the prompt's last token."""
    if type(policy.model.get_output_embeddings()) is not nn.Linear:
        return False
    head = SlicedHead(policy)
    tokens = torch.tensor([prompt], device=policy.device)
    with torch.no_grad():
        whole = policy.log_probabilities(policy.model(tokens, logits_to_keep=1).logits)
        with head.capturing() as hidden:
            policy.model(tokens, logits_to_keep=1)
        middle = whole.shape[-1] // 2
        try:
            parts = [
                head.logits(hidden[0], part)[1]
                for part in (slice(0, middle), slice(middle, whole.shape[-1]))
            ]
        except (AttributeError, RuntimeError, TypeError):
            return False  # a model that cannot be run from its last hidden states
    again = torch.log_softmax(torch.cat(parts, -1), -1).to(whole.device)
    return again.shape == whole.shape and bool(torch.allclose(again, whole, atol=1e-2))


def measure_footprint(policy: Policy, prompt: list[int], new_tokens: int) -> Footprint:
    """Measure the footprint of a policy on a prompt, by one trial completion.

    Args:
        policy: The policy.
        prompt: The longest prompt's token ids.
        new_tokens: The most tokens of a completion.
    """
    trial = Completions(
        np.zeros((1, new_tokens), np.int64),
        np.array([new_tokens]),
        np.zeros(1),
        np.zeros(1, np.bool_),
    )
    vocabulary = policy.model.get_output_embeddings().weight.shape[0]
    head = COPIES_OF_LOGITS * 4 * new_tokens * vocabulary
    total, inputs, layer, factors = _measure_layers(policy, prompt, trial)
    meter = _Meter(policy.model)
    with policy.differentiable():
        with torch.no_grad():
            prefix = SharedPrefix(policy, prompt)
        with meter.measuring():
            completion_log_probs(policy, prefix, trial)
    keys = _nbytes(iter(prefix.tensors())) / max(1, len(prompt) - 1)
    # Without a cache every step reads the whole text: no more than a pass that is kept.
    drawing = (
        meter.total if prefix.cache is None else int(keys * (len(prompt) + new_tokens))
    )
    return Footprint(
        weights=_nbytes(iter(policy.model.parameters())),
        gradient=4 * policy.size,
        kept=total,
        head=head,
        inputs=inputs,
        layer=layer,
        factors=factors,
        reference=meter.total + head,
        drawing=drawing + 2 * COPIES_OF_LOGITS * 4 * vocabulary,
        sliceable=_can_slice(policy, prompt),
    )
