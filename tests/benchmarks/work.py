"""What every way is given: a model, a prompt's completions and rewards, a reference.

The code here and in the ways themselves uses PyTorch and transformers alone, as a user
without this tool would.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Key = tuple[str, int]


@dataclass(frozen=True)
class Work:
    """One block of completions of one prompt, and what their groups are compared with."""

    model: Any  # The language model.
    parameters: dict[str, nn.Parameter]  # Name -> parameter, those that count.
    prompt: list[int]  # The prompt's token ids.
    tokens_NT: Tensor  # Token ids of the completions.
    lengths_N: Tensor  # Tokens that count.
    rewards_N: np.ndarray  # Rewards.
    value: float  # V, for the oracle.
    reference: dict[str, Tensor]  # Name -> rbar.
    temperature: float = 1.0  # Divides the logits.

    def __len__(self) -> int:
        return len(self.lengths_N)

    def __getitem__(self, rows: slice) -> "Work":
        return replace(
            self,
            tokens_NT=self.tokens_NT[rows],
            lengths_N=self.lengths_N[rows],
            rewards_N=self.rewards_N[rows],
        )

    @property
    def size(self) -> int:
        """D."""
        return sum(parameter.numel() for parameter in self.parameters.values())

    @cached_property
    def reference_D(self) -> Tensor:
        return torch.cat([self.reference[name].flatten() for name in self.parameters])

    @contextmanager
    def differentiable(self) -> Iterator[None]:
        """Let autograd see the parameters inside the block; leave nothing behind."""
        for parameter in self.parameters.values():
            parameter.requires_grad_(True)
        try:
            yield
        finally:
            for parameter in self.parameters.values():
                parameter.requires_grad_(False)
                parameter.grad = None

    def inputs(self) -> Tensor:
        """Give prompt and completion, all but the last token, (N, prompt + T - 1)."""
        start = torch.tensor(self.prompt).expand(len(self), -1)
        return torch.cat([start, self.tokens_NT[:, :-1]], dim=1)

    def log_probs(self) -> Tensor:
        """Compute the completions' log-probabilities in one forward pass, (N,)."""
        logits = self.model(
            self.inputs(), use_cache=False, logits_to_keep=self.tokens_NT.shape[1]
        ).logits
        return sum_log_probs(self.scaled(logits), self.tokens_NT, self.lengths_N[:, None])

    def scaled(self, logits: Tensor) -> Tensor:
        """Divide logits by the temperature, without another copy of them at 1."""
        return logits if self.temperature == 1 else logits / self.temperature


def sum_log_probs(logits: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
    """Sum log pi of the tokens (..., T) up to their lengths (..., 1)."""
    log_probs = torch.log_softmax(logits, dim=-1).gather(-1, tokens[..., None])[..., 0]
    own = torch.arange(tokens.shape[-1]) < lengths
    return torch.where(own, log_probs, 0).sum(-1)


def weights_of(estimator: str, rewards_RG: np.ndarray, value: float) -> np.ndarray:
    """Weigh the completions of groups: vanilla, GRPO-type or oracle, (R, G)."""
    if estimator == "vanilla":
        return rewards_RG
    if estimator == "oracle":
        return rewards_RG - value
    size = rewards_RG.shape[-1]
    return (rewards_RG - rewards_RG.mean(-1, keepdims=True)) * size / (size - 1)


def errors_of_gram(
    work: Work, gram_NN: np.ndarray, products_N: np.ndarray, keys: Sequence[Key]
) -> dict[Key, np.ndarray]:
    """Turn inner products into squared errors ||g_hat - rbar||^2, (R,) for each key."""
    norm2 = float(work.reference_D.double().square().sum())
    found = {}
    for estimator, size in keys:
        weights_RG = weights_of(estimator, work.rewards_N.reshape(-1, size), work.value)
        rows = np.arange(len(work)).reshape(-1, size)
        blocks_RGG = gram_NN[rows[:, :, None], rows[:, None, :]]
        quadratic = np.einsum("rg,rgh,rh->r", weights_RG, blocks_RGG, weights_RG)
        linear = (weights_RG * products_N[rows]).sum(-1)
        found[estimator, size] = quadratic / size**2 - 2 * linear / size + norm2
    return found
