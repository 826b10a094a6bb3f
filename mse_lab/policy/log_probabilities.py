"""Log-probabilities of completions, log pi(Y_i | x), differentiable.

The policy is softmax(logits / temperature) (`Policy.scaled`). A completion's
log-probability is the sum over the policy's own tokens, the end token included. It is
computed from the whole sequence (`sequence_log_probs`) or after a shared prefix
(`completion_log_probs`).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy
from mse_lab.policy.shared_prefix import SharedPrefix, completion_logits, sequences


class _TokenLogProbs(torch.autograd.Function):
    """log pi of tokens from scaled logits, differentiated once.

    The gradient with respect to the logits, d (1[v = y] - pi(v)), overwrites log pi: with a
    large vocabulary the time is spent on reading and writing such arrays.
    """

    @staticmethod
    def forward(ctx: Any, logits_NTV: Tensor, tokens_NT: Tensor) -> Tensor:
        log_probs_NTV = torch.log_softmax(logits_NTV, dim=-1)
        ctx.save_for_backward(log_probs_NTV, tokens_NT)
        return log_probs_NTV.gather(-1, tokens_NT[..., None])[..., 0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (d_NT,) = gradients
        log_probs_NTV, tokens_NT = ctx.saved_tensors
        gradient = log_probs_NTV.exp_().mul_(-d_NT[..., None])
        return gradient.scatter_add_(-1, tokens_NT[..., None], d_NT[..., None]), None


_token_log_probs: Callable[..., Tensor] = _TokenLogProbs.apply


def sum_over_tokens(log_probs_NT: Tensor, completions: Completions) -> Tensor:
    """Sum over the policy's own tokens of each completion: (..., N, T) to (..., N).

    Each counts once, or what the completions' `weights_NT` say.
    """
    positions, weights_NT = log_probs_NT.shape[-1], completions.weights_NT
    if weights_NT is not None:
        weights = torch.from_numpy(weights_NT[:, :positions]).to(log_probs_NT)
        padding = positions - weights.shape[-1]
        log_probs_NT = log_probs_NT * nn.functional.pad(weights, (0, padding))
    own_NT = torch.from_numpy(completions.own_NT(positions))
    return torch.where(own_NT.to(log_probs_NT.device), log_probs_NT, 0).sum(-1)


def _sum_log_probs(
    policy: Policy, logits_NTV: Tensor, tokens_NT: Tensor, completions: Completions
) -> Tensor:
    tokens_NT = tokens_NT.to(logits_NTV.device)
    log_probs_NT = _token_log_probs(policy.scaled(logits_NTV), tokens_NT)
    return sum_over_tokens(log_probs_NT, completions)


def padded_tokens(policy: Policy, completions: Completions, padding: int = 0) -> Tensor:
    """Move tokens to the device, `padding` more than the longest completion, (N, T)."""
    longest = int(completions.lengths_N.max())
    tokens = torch.from_numpy(completions.tokens_NT[:, :longest]).to(policy.device)
    return nn.functional.pad(tokens, (0, padding))


def sequence_log_probs(
    policy: Policy, prompt: list[int], completions: Completions, padding: int = 0
) -> Tensor:
    """Compute log pi(Y_i | x) from whole sequences, without a cache, (N,).

    The `padding` tokens on the right of the longest completion do not change it: attention
    is causal and the sum ends at a completion's length.
    """
    tokens = padded_tokens(policy, completions, padding)
    logits = policy.logits(sequences(prompt, tokens), kept=tokens.shape[1])
    return _sum_log_probs(policy, logits, tokens, completions)


@torch.no_grad()
def token_log_probs(policy: Policy, prompt: list[int], completions: Completions) -> Tensor:
    """Compute log pi of each token, (N, T); T is the longest completion's length."""
    tokens = padded_tokens(policy, completions)
    logits = completion_logits(policy, SharedPrefix(policy, prompt), tokens)
    return _token_log_probs(policy.scaled(logits), tokens.to(logits.device))


def completion_log_probs(
    policy: Policy, prefix: SharedPrefix, completions: Completions
) -> Tensor:
    """Compute log pi(Y_i | x) after a shared prefix, (N,)."""
    tokens = padded_tokens(policy, completions)
    logits = completion_logits(policy, prefix, tokens)
    return _sum_log_probs(policy, logits, tokens, completions)
