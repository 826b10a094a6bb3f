"""Loops: one plain pass, and what a competent user writes who knows no better.

The floor is one plain batched forward and backward pass over a block. The obvious loop has
one backward pass for every replicate, group size and estimator: completions drawn by
`generate`, a pass batched over the group, its gradient flattened and compared with the
reference. The closest public experiment draws completions once, and estimators share the
forward pass of a group.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from benchmarks.work import Work, weights_of


def plain_pass(work: Work) -> None:
    """Differentiate the sum of the block's log-probabilities in all parameters."""
    with work.differentiable():
        work.log_probs().sum().backward()


# Completions in one forward pass of `generate`, and of the reference.
SAMPLED, DIFFERENTIATED = 256, 64


def sample(work: Work, count: int, end_tokens: list[int]) -> Tensor:
    """Draw completions of the prompt with a key-value cache, (count, prompt + T)."""
    prompt = torch.tensor([work.prompt])
    drawn = [
        work.model.generate(
            prompt.repeat(min(SAMPLED, count - start), 1),
            attention_mask=torch.ones(
                min(SAMPLED, count - start), len(work.prompt), dtype=torch.long
            ),
            do_sample=True,
            top_k=0,
            top_p=1.0,
            temperature=work.temperature,
            max_new_tokens=work.tokens_NT.shape[1],
            eos_token_id=end_tokens or None,
            pad_token_id=0,
        )
        for start in range(0, count, SAMPLED)
    ]
    width = max(part.shape[1] for part in drawn)
    return torch.cat(
        [torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in drawn]
    )


def gradient(work: Work, weights_N: np.ndarray) -> Tensor:
    """Differentiate the weighted mean of log-probabilities in one pass, flattened (D,)."""
    weights = torch.from_numpy(weights_N).float()
    with work.differentiable():
        (weights * work.log_probs()).mean().backward()
        return torch.cat([one.grad.flatten() for one in work.parameters.values()])


def reference(work: Work) -> Tensor:
    """Average the leave-one-out gradient over many completions, in batches, (D,)."""
    weights_N = weights_of("grpo", work.rewards_N[None], work.value)[0]
    total = torch.zeros(work.size)
    for start in range(0, len(work), DIFFERENTIATED):
        part = slice(start, start + DIFFERENTIATED)
        total += gradient(work[part], weights_N[part]) * len(work[part])
    return total / len(work)


def squared_error(work: Work, estimator: str, group: slice) -> float:
    """Measure one replicate: ||g_hat - rbar||^2 of the group in these rows."""
    part = work[group]
    weights_G = weights_of(estimator, part.rewards_N[None], work.value)[0]
    return float((gradient(part, weights_G) - work.reference_D).square().sum())


def squared_errors(work: Work, estimators: Sequence[str], group: slice) -> list[float]:
    """Measure one replicate of every estimator on the group in these rows."""
    part, parameters, errors = work[group], list(work.parameters.values()), []
    with work.differentiable():
        log_probs = part.log_probs()
        for estimator in estimators:
            weights_G = weights_of(estimator, part.rewards_N[None], work.value)[0]
            gradients = torch.autograd.grad(
                (torch.from_numpy(weights_G).to(log_probs) * log_probs).mean(),
                parameters,
                retain_graph=estimator != estimators[-1],
            )
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            errors.append(float((flat - work.reference_D).square().sum()))
    return errors
