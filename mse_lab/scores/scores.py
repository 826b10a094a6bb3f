"""Scores: completions -> Gram matrix, products with the reference, score norms.

The score of completion i is W_i = grad log pi(Y_i | x) in all parameters that count, its
log-probability summed over its own tokens, end token included. One forward and backward
pass over a block of completions yields every W_i in factored form (`factors.py`), layer
by layer; each parameter's factors are reduced to inner products and dropped as soon as
the backward pass has met all uses of the parameter. No score is ever stored, and the
parameters' own gradients are never accumulated.

Where the block's activations do not fit, only the inputs of the decoder layers are kept,
and each layer is run once more when the backward pass reaches it (`layers.py`). Torch ends
here: what leaves this file is NumPy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mse_lab.policy.completions import Completions
from mse_lab.policy.policy import Policy
from mse_lab.scores.module_calls import Unattributed
from mse_lab.scores.output_head import SlicedHead
from mse_lab.scores.recomputed_layers import recomputed_layers
from mse_lab.scores.recorder import Recorder


class Scoring(NamedTuple):
    """How a block is scored; the scores are the same, memory and time are not.

    Attributes:
        block: Completions whose products are formed with one another; where it is less
            than the largest group, only norms and products with the reference are had.
        layer: Completions in one decoder layer at a time, which is recomputed from its
            input; None keeps all activations.
        sliced: Whether the logits are formed in slices of the vocabulary only.
    """

    block: int
    layer: int | None = None
    sliced: bool = False


@dataclass(frozen=True)
class Scores:
    """Inner products of the scores of a block of N completions.

    Attributes:
        gram_NN: <W_i, W_j>; NaN between completions that were not scored together.
        products_N: <W_i, r> with the reference r.
        norms2: Parameter name -> ||W_i||^2 in that parameter, (N,).
        log_probs_N: log pi(Y_i | x), recomputed from the whole sequence.
    """

    gram_NN: NDArray[np.float64]
    products_N: NDArray[np.float64]
    norms2: dict[str, NDArray[np.float64]]
    log_probs_N: NDArray[np.float64]

    def norms_only(self) -> "Scores":
        """Forget the products between completions."""
        diagonal = np.eye(len(self.gram_NN), dtype=bool)
        return replace(self, gram_NN=np.where(diagonal, self.gram_NN, np.nan))

    def pick(self, place_N: NDArray[np.int64]) -> "Scores":
        """Give the scores of completions that are at these places of the block."""
        return Scores(
            gram_NN=self.gram_NN[np.ix_(place_N, place_N)],
            products_N=self.products_N[place_N],
            norms2={name: norms2[place_N] for name, norms2 in self.norms2.items()},
            log_probs_N=self.log_probs_N[place_N],
        )


def sum_own_tokens(log_probs_NT: Tensor, completions: Completions) -> Tensor:
    """Sum each completion's token log-probabilities up to its length, (N,)."""
    lengths = torch.from_numpy(completions.lengths_N).to(log_probs_NT.device)
    positions = torch.arange(log_probs_NT.shape[1], device=log_probs_NT.device)
    return torch.where(positions < lengths[:, None], log_probs_NT, 0).sum(1)


class _TokenLogProbs(torch.autograd.Function):
    """log pi of tokens from scaled logits, differentiated once.

    The gradient in the logits, d (1[v = y] - pi(v)), is written over the table of log pi:
    with a large vocabulary the time goes into touching such tables.
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


def token_log_probs(policy: Policy, logits_NTV: Tensor, tokens_NT: Tensor) -> Tensor:
    """Look up each token's log-probability, (N, T)."""
    return _token_log_probs(policy.scaled(logits_NTV), tokens_NT.to(logits_NTV.device))


def _sequences(
    policy: Policy, prompt: list[int], completions: Completions, padding: int
) -> tuple[Tensor, Tensor]:
    """Join prompt and completions: (what the model reads, the completions' tokens)."""
    longest = int(completions.lengths_N.max())
    tokens = torch.from_numpy(completions.tokens_NT[:, :longest]).to(policy.device)
    tokens = nn.functional.pad(tokens, (0, padding))
    start = torch.tensor(prompt, device=policy.device).expand(len(completions), -1)
    return torch.cat([start, tokens[:, :-1]], dim=1), tokens


def sequence_log_probs(
    policy: Policy, prompt: list[int], completions: Completions, padding: int = 0
) -> Tensor:
    """Compute log pi(Y_i | x) from whole sequences, no cache, padded on the right.

    Args:
        policy: The policy.
        prompt: The prompt's token ids.
        completions: Its completions.
        padding: Tokens of padding beyond the longest completion.

    Returns:
        Differentiable log-probabilities (N,). What follows a completion cannot change
        them: attention is causal and the sum stops at its length.
    """
    inputs, tokens = _sequences(policy, prompt, completions, padding)
    logits = policy.model(inputs, use_cache=False, logits_to_keep=tokens.shape[1]).logits
    return sum_own_tokens(token_log_probs(policy, logits, tokens), completions)


def _sliced_log_probs(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    padding: int,
    head: SlicedHead,
    recorder: Recorder,
) -> Tensor:
    """Compute the same without ever holding all logits."""
    inputs, tokens = _sequences(policy, prompt, completions, padding)
    with head.capturing() as hidden:
        policy.model(inputs, use_cache=False, logits_to_keep=tokens.shape[1])
    log_probs = head.log_probabilities(hidden[0], tokens.to(hidden[0].device), recorder)
    return sum_own_tokens(log_probs, completions)


def _score_together(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    reference: Mapping[str, Tensor],
    padding: int,
    how: Scoring,
) -> Scores:
    """Score completions in one forward and backward pass, with all their products."""
    recorder = Recorder(policy, len(completions), reference, shared=len(prompt))
    head = SlicedHead(policy) if how.sliced else None
    try:
        with (
            recorder.recording(without=head.module if head else None),
            recomputed_layers(policy.model, recorder, how.layer),
            torch.enable_grad(),
        ):
            what = policy, prompt, completions, padding
            log_probs = (
                _sliced_log_probs(*what, head, recorder)
                if head
                else sequence_log_probs(*what)
            )
            log_probs.sum().backward()
        recorder.finish()
    except Unattributed as found:
        # Once a model: the module around the one found answers from now on.
        recorder.hand_up(found)
    else:
        return Scores(
            gram_NN=recorder.gram.numpy(),
            products_N=recorder.products.numpy(),
            norms2=recorder.norms2,
            log_probs_N=log_probs.detach().double().cpu().numpy(),
        )
    # Out of the exception, which holds on to the pass that it ended.
    return _score_together(policy, prompt, completions, reference, padding, how)


def _side_by_side(parts: list[Scores]) -> Scores:
    """Join scores of parts of a block, the products between parts unknown."""
    count = sum(len(part.products_N) for part in parts)
    gram, start = np.full((count, count), np.nan), 0
    for part in parts:
        rows = slice(start, start + len(part.products_N))
        gram[rows, rows], start = part.gram_NN, rows.stop
    return Scores(
        gram_NN=gram,
        products_N=np.concatenate([part.products_N for part in parts]),
        norms2={
            name: np.concatenate([part.norms2[name] for part in parts])
            for name in parts[0].norms2
        },
        log_probs_N=np.concatenate([part.log_probs_N for part in parts]),
    )


def score_block(
    policy: Policy,
    prompt: list[int],
    completions: Completions,
    reference: Mapping[str, Tensor],
    padding: int = 0,
    how: Scoring | None = None,
) -> Scores:
    """Score a block of completions, one backward pass through each distinct one.

    Args:
        policy: The policy.
        prompt: The prompt's token ids.
        completions: The block; products are formed between any two of it.
        reference: Parameter name -> reference gradient, for every parameter that the
            policy's log-probability depends on.
        padding: Tokens of padding beyond the longest completion; changes nothing.
        how: What is kept in memory; None for everything, the fastest.

    Returns:
        The block's inner products, float64.

    Raises:
        InputError: A module with such a parameter has no exact rule; it is named.
    """
    how = how or Scoring(len(completions))
    distinct, place_N = completions.distinct()
    parts = [
        _score_together(
            policy,
            prompt,
            distinct[start : start + how.block],
            reference,
            padding,
            how,
        )
        for start in range(0, len(distinct), how.block)
    ]
    scores = _side_by_side(parts).pick(place_N)
    # Which products are known must not depend on which completions were drawn, or those
    # that are known would be no fair sample: all of a block's, or none.
    return scores if how.block >= len(completions) else scores.norms_only()
