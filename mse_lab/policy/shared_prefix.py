"""The prompt's part of a forward pass, computed once and shared by its completions.

Models with other states than keys and values, or without a cache, process the whole prompt
with every completion, which is slower.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DummyLayer

from mse_lab.policy.policy import Policy


class SharedPrefix:
    """Keys and values of all prompt tokens but the last, computed once.

    Several prompts of one length have a row each. The last prompt token is processed
    together with a completion's tokens, so that all of the completion's logits come from
    one forward pass.
    """

    def __init__(
        self, policy: Policy, prompt: list[int], *others: list[int], cached: bool = True
    ) -> None:
        self.prompt, self._others = prompt, others
        # None where nothing can be shared, or shall be.
        self.cache: Any = policy.empty_cache() if cached else None
        if self.cache is not None and len(prompt) > 1:
            tokens = torch.tensor(
                [one[:-1] for one in (prompt, *others)], device=policy.device
            )
            policy.logits(tokens, self.cache, kept=1)
            layers = [
                layer for layer in self.cache.layers if not isinstance(layer, DummyLayer)
            ]
            if not all(layer.get_seq_length() for layer in layers):
                self.cache = None  # The model left it empty.
        # The prompt tokens that are processed with each completion.
        self.unread = prompt if self.cache is None else prompt[-1:]

    @property
    def unread_PT(self) -> Tensor:
        """The prompt tokens that are processed with each completion, by prompt."""
        prompts = self.prompt, *self._others
        return torch.tensor([one[-len(self.unread) :] for one in prompts])

    def _with(self, change: Callable[[Tensor], Tensor]) -> Any:
        """Copy the cache and apply a function to its tensors."""
        cache = copy.copy(self.cache)
        cache.layers = [copy.copy(layer) for layer in self.cache.layers]
        for layer in cache.layers:
            if layer.get_seq_length():
                layer.keys, layer.values = change(layer.keys), change(layer.values)
        return cache

    def tensors(self) -> list[Tensor]:
        """List the shared keys and values of all layers."""
        layers = self.cache.layers if self.cache is not None else []
        filled = [layer for layer in layers if layer.get_seq_length()]
        return [tensor for layer in filled for tensor in (layer.keys, layer.values)]

    def expand(self, completions: int) -> Any:
        """Make a cache for several completions, without copying the prompt's part."""
        if self.cache is None:
            return None
        return self._with(lambda tensor: tensor.expand(completions, -1, -1, -1))

    def detached(self) -> "SharedPrefix":
        """Copy the prefix without its graph: the copy collects gradients."""
        cut = copy.copy(self)
        if self.cache is not None:
            cut.cache = self._with(
                lambda tensor: tensor.detach().requires_grad_(tensor.requires_grad)
            )
        return cut

    def backward(self, cut: "SharedPrefix") -> None:
        """Continue the backward pass from the gradients that `cut` has collected."""
        pairs = [
            (tensor, leaf.grad)
            for tensor, leaf in zip(self.tensors(), cut.tensors(), strict=True)
            if leaf.grad is not None
        ]
        if pairs:
            tensors, gradients = zip(*pairs, strict=True)
            torch.autograd.backward(tensors, gradients)


def sequences(prompt: list[int], tokens_NT: Tensor) -> Tensor:
    """Join a prompt and completions' tokens without the last: the model's input."""
    start = torch.tensor(prompt, device=tokens_NT.device).expand(len(tokens_NT), -1)
    return torch.cat([start, tokens_NT[:, :-1]], dim=1)


def completion_logits(policy: Policy, prefix: SharedPrefix, tokens_NT: Tensor) -> Tensor:
    """Compute the logits for each token of completions after a prompt, (N, T, V)."""
    count, length = tokens_NT.shape
    inputs = sequences(prefix.unread, tokens_NT)
    return policy.logits(inputs, prefix.expand(count), kept=length)
