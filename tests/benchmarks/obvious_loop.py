"""One plain pass, and what a competent user writes who knows no better.

In PyTorch and transformers alone. The plain pass is one batched forward and backward pass
over the completions. The obvious loop has one backward pass for every replicate, group size
and estimator: a pass batched over the group, its gradient flattened and compared with the
reference. The closest public experiment draws completions once, and estimators share the
forward pass of a group.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

ESTIMATORS = ("vanilla", "grpo", "oracle")
VALUE = 0.5  # The oracle's V, the same for all ways: which one it is costs no time.

# Completions in one forward pass of `generate`, and in one of the loop's reference.
SAMPLED, DIFFERENTIATED = 256, 64


@dataclass(frozen=True)
class Work:
    """Completions of one prompt, and what gradients of their groups are compared with."""

    model: Any
    parameters: dict[str, nn.Parameter]  # Those that count.
    prompt: list[int]  # Token ids.
    tokens_NT: Tensor
    lengths_N: Tensor
    rewards_N: np.ndarray
    reference_D: Tensor  # rbar.
    temperature: float

    def __len__(self) -> int:
        return len(self.lengths_N)

    def __getitem__(self, rows: slice) -> "Work":
        names = ("tokens_NT", "lengths_N", "rewards_N")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

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

    def log_probs(self) -> Tensor:
        """Compute the completions' log-probabilities in one forward pass, (N,)."""
        start = torch.tensor(self.prompt).expand(len(self), -1)
        inputs = torch.cat([start, self.tokens_NT[:, :-1]], dim=1)
        longest = self.tokens_NT.shape[1]
        logits = self.model(inputs, use_cache=False, logits_to_keep=longest).logits
        logits = logits if self.temperature == 1 else logits / self.temperature
        of_tokens = logits.log_softmax(-1).gather(-1, self.tokens_NT[..., None])[..., 0]
        own = torch.arange(longest) < self.lengths_N[:, None]
        return torch.where(own, of_tokens, 0).sum(-1)


def weights_of(estimator: str, rewards_RG: np.ndarray) -> np.ndarray:
    """Weigh the completions of groups: vanilla, GRPO-type or oracle, (R, G)."""
    if estimator == "vanilla":
        return rewards_RG
    if estimator == "oracle":
        return rewards_RG - VALUE
    size = rewards_RG.shape[-1]
    return (rewards_RG - rewards_RG.mean(-1, keepdims=True)) * size / (size - 1)


def plain_pass(work: Work) -> None:
    """Differentiate the sum of the completions' log-probabilities in all parameters."""
    with work.differentiable():
        work.log_probs().sum().backward()


def generate(work: Work, count: int, end_tokens: list[int]) -> list[Tensor]:
    """Draw completions of the prompt, as a user would."""
    batches = [min(SAMPLED, count - start) for start in range(0, count, SAMPLED)]
    prompt = torch.tensor([work.prompt])
    return [
        work.model.generate(
            prompt.repeat(batch, 1),
            attention_mask=torch.ones(batch, len(work.prompt), dtype=torch.long),
            do_sample=True,
            top_k=0,
            top_p=1.0,
            temperature=work.temperature,
            max_new_tokens=work.tokens_NT.shape[1],
            eos_token_id=end_tokens or None,
            pad_token_id=0,
        )
        for batch in batches
    ]


def gradient(work: Work, weights_N: np.ndarray) -> Tensor:
    """Differentiate the weighted mean of log-probabilities in one pass, flattened (D,)."""
    with work.differentiable():
        (torch.from_numpy(weights_N).float() * work.log_probs()).mean().backward()
        return torch.cat([one.grad.flatten() for one in work.parameters.values()])


def reference(work: Work) -> Tensor:
    """Average the leave-one-out gradient over completions, in batches, (D,)."""
    weights_N = weights_of("grpo", work.rewards_N[None])[0]
    total = torch.zeros(len(work.reference_D))
    for start in range(0, len(work), DIFFERENTIATED):
        part = slice(start, start + DIFFERENTIATED)
        total += gradient(work[part], weights_N[part]) * len(work[part])
    return total / len(work)


def squared_error(work: Work, estimator: str) -> float:
    """Measure one replicate, a group of these completions: ||g_hat - rbar||^2."""
    weights_G = weights_of(estimator, work.rewards_N[None])[0]
    return float((gradient(work, weights_G) - work.reference_D).square().sum())


def squared_errors(work: Work) -> list[float]:
    """Measure one replicate of every estimator, in one forward pass."""
    errors = []
    with work.differentiable():
        log_probs, parameters = work.log_probs(), list(work.parameters.values())
        for estimator in ESTIMATORS:
            weights_G = torch.from_numpy(weights_of(estimator, work.rewards_N[None])[0])
            mean = (weights_G.to(log_probs) * log_probs).mean()
            again = estimator != ESTIMATORS[-1]
            parts = torch.autograd.grad(mean, parameters, retain_graph=again)
            flat = torch.cat([part.flatten() for part in parts])
            errors.append(float((flat - work.reference_D).square().sum()))
    return errors
