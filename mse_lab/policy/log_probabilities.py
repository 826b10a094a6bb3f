"""Log-probabilities of completions, log pi(Y_i | x), differentiable.

The policy is softmax(logits / temperature) (`Policy.scaled`). A completion's
log-probability is the sum over the policy's own tokens, the end token included. It is
computed from the whole sequence (`sequence_sums`) or after a shared prefix
(`completion_log_probs`), the prompt's part of a pass. Models with other states than keys
and values, or without a cache, process the whole prompt with every completion.

The same pass gives each completion's logits norm, the sum over its own tokens of

    ||d log pi(y_t) / d logits||^2 = 1 - 2 pi(y_t) + sum_v pi(v)^2,

the logits being those that the temperature has divided.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import EMPTY_LAYERS, Policy


class SharedPrefix:
    """Keys and values of all prompt tokens but the last, computed once.

    The last prompt token is processed together with a completion's tokens, so that all of
    the completion's logits come from one forward pass. Several prompts of one length have a
    row each, to be drawn from.
    """

    def __init__(self, policy: Policy, prompt: list[int], *others: list[int]) -> None:
        self.prompts = [prompt, *others]
        self.cache: Any = policy.empty_cache()  # None where nothing can be shared.
        if self.cache is not None and len(prompt) > 1:
            read = [one[:-1] for one in self.prompts]
            tokens = torch.tensor(read, device=policy.device)
            policy.logits(tokens, self.cache, kept=1)
            layers = [
                layer for layer in self.cache.layers if not isinstance(layer, EMPTY_LAYERS)
            ]
            if not all(layer.get_seq_length() for layer in layers):
                self.cache = None  # The model left it empty.
        # The prompt tokens that are processed with each completion.
        self.unread = prompt if self.cache is None else prompt[-1:]

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


class _TokenLogProbs(torch.autograd.Function):
    """log pi of tokens from scaled logits, differentiated once, and logits norms.

    The gradient with respect to the logits, d (1[v = y] - pi(v)), overwrites pi, as pi has
    log pi: with a large vocabulary the time is spent on reading and writing such arrays.
    """

    @staticmethod
    def forward(ctx: Any, logits_NTV: Tensor, tokens_NT: Tensor) -> tuple[Tensor, Tensor]:
        log_probs_NTV = torch.log_softmax(logits_NTV, dim=-1)
        log_probs_NT = log_probs_NTV.gather(-1, tokens_NT[..., None])[..., 0]
        probs_NTV = log_probs_NTV.exp_()
        norms2_NT = logit_norms2(log_probs_NT, torch.linalg.vector_norm(probs_NTV, dim=-1))
        ctx.save_for_backward(probs_NTV, tokens_NT)
        ctx.mark_non_differentiable(norms2_NT)
        return log_probs_NT, norms2_NT

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        d_NT, _ = gradients
        probs_NTV, tokens_NT = ctx.saved_tensors
        gradient = probs_NTV.mul_(-d_NT[..., None])
        return gradient.scatter_add_(-1, tokens_NT[..., None], d_NT[..., None]), None


token_log_probs: Callable[..., tuple[Tensor, Tensor]] = _TokenLogProbs.apply


def logit_norms2(log_probs_NT: Tensor, norm_of_probs_NT: Tensor) -> Tensor:
    """Compute (1 - pi(y))^2 + sum_{v != y} pi(v)^2 of log pi(y) and sqrt(sum_v pi(v)^2)."""
    others_NT = norm_of_probs_NT.square() - log_probs_NT.exp().square()
    return torch.expm1(log_probs_NT).square() + others_NT.clamp(min=0)


class TokenSums(NamedTuple):
    """What a pass gives of N completions: sums over their own tokens."""

    log_probs_N: Tensor  # log pi(Y_i | x), differentiable.
    logit_norms2_N: Tensor  # The logits norms.

    @classmethod
    def of(cls, tokens: tuple[Tensor, Tensor], completions: Completions) -> "TokenSums":
        """Sum both over tokens, from (N, T)."""
        return cls(*(sum_over_tokens(of_NT, completions) for of_NT in tokens))


def sum_over_tokens(log_probs_NT: Tensor, completions: Completions) -> Tensor:
    """Sum over the policy's own tokens of each completion: (..., N, T) to (..., N)."""
    scored_NT = torch.from_numpy(completions.scored_NT(log_probs_NT.shape[-1]))
    return torch.where(scored_NT.to(log_probs_NT.device), log_probs_NT, 0).sum(-1)


def _sum_tokens(
    policy: Policy, logits_NTV: Tensor, tokens_NT: Tensor, completions: Completions
) -> TokenSums:
    tokens_NT = tokens_NT.to(logits_NTV.device)
    return TokenSums.of(token_log_probs(policy.scaled(logits_NTV), tokens_NT), completions)


def padded_tokens(policy: Policy, completions: Completions, padding: int = 0) -> Tensor:
    """Move tokens to the device, `padding` more than the longest completion, (N, T)."""
    longest = int(completions.lengths_N.max())
    tokens = torch.from_numpy(completions.tokens_NT[:, :longest]).to(policy.device)
    return nn.functional.pad(tokens, (0, padding))


def sequence_sums(
    policy: Policy, prompt: list[int], completions: Completions, padding: int = 0
) -> TokenSums:
    """Compute log pi(Y_i | x) and logits norms from whole sequences, without a cache.

    The `padding` tokens on the right of the longest completion do not change it: attention
    is causal and the sum ends at a completion's length.
    """
    tokens = padded_tokens(policy, completions, padding)
    logits = policy.logits(sequences(prompt, tokens), kept=tokens.shape[1])
    return _sum_tokens(policy, logits, tokens, completions)


def completion_log_probs(
    policy: Policy, prefix: SharedPrefix, completions: Completions
) -> Tensor:
    """Compute log pi(Y_i | x) after a shared prefix, (N,)."""
    tokens = padded_tokens(policy, completions)
    logits = completion_logits(policy, prefix, tokens)
    return _sum_tokens(policy, logits, tokens, completions).log_probs_N
