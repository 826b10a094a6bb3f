"""Sampling: draw the completions of prompts from the policy.

A token is the inverse of the policy's distribution function at a given uniform, so the
completions are a pure function of the uniforms, whatever is drawn together. Completions
with the same beginning share a row of the batch until they differ, and finished completions
leave the batch. The settings of the distribution, such as the temperature, are in
`Policy.scaled`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.policy.completions import Completions, concatenate
from mse_lab.policy.log_probabilities import SharedPrefix
from mse_lab.policy.policy import Policy

# The buffers of keys and values grow by this many tokens at a time.
BUFFER_TOKENS = 32


class _BufferedLayer(DynamicLayer):
    """Keys and values in larger buffers, so that not all are copied at every token."""

    def __init__(self, layer: DynamicLayer, longest: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        vars(self).update(vars(layer))
        self._longest = longest
        self._buffers: dict[str, Tensor] = {}

    def _append(self, name: str, states: Tensor) -> Tensor:
        before, buffer = getattr(self, name), self._buffers.get(name)
        length = before.shape[-2] + states.shape[-2]
        if buffer is None or buffer.shape[-2] < length:
            count, heads, _, width = states.shape
            tokens = min(length + BUFFER_TOKENS, self._longest)
            buffer = states.new_empty(count, heads, tokens, width)
            buffer[..., : before.shape[-2], :] = before
            self._buffers[name] = buffer
        buffer[..., before.shape[-2] : length, :] = states
        return buffer[..., :length, :]

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new tokens; return all."""
        if not self.get_seq_length():
            return super().update(key_states, value_states, *args, **kwargs)
        self.keys = self._append("keys", key_states)
        self.values = self._append("values", value_states)
        return self.keys, self.values

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Keep these rows."""
        super().reorder_cache(beam_idx)
        self._buffers.clear()


def next_log_probabilities(policy: Policy, tokens_RT: Tensor, cache: Any) -> Tensor:
    """Process each row's tokens, extend the cache; return log pi of the next, (R, V)."""
    return policy.log_probabilities(policy.logits(tokens_RT, cache, kept=1)[:, -1])


class _Beginnings:
    """The distinct beginnings of the unfinished completions, one row of the batch each."""

    def __init__(self, policy: Policy, prefix: SharedPrefix, positions: int) -> None:
        unread = [one[-len(prefix.unread) :] for one in prefix.prompts]
        self._unread_RT = torch.tensor(unread, device=policy.device)
        self._cache = prefix.expand(len(self._unread_RT))
        if self._cache is not None:
            longest = len(prefix.prompts[0]) - 1 + positions
            self._cache.layers = [
                _BufferedLayer(layer, longest) if type(layer) is DynamicLayer else layer
                for layer in self._cache.layers
            ]

    def read(self, policy: Policy) -> Tensor:
        """Compute log pi of every row's next token, (R, V)."""
        return next_log_probabilities(policy, self._unread_RT, self._cache)

    def branch(self, row_N: Tensor, drawn_N: Tensor, vocabulary: int) -> Tensor:
        """Append the drawn tokens; return the new row of each completion."""
        # A pair of row and token as one number: torch is slow at unique pairs.
        pair_R, row_N = torch.unique(row_N * vocabulary + drawn_N, return_inverse=True)
        parent_R, token_R1 = pair_R // vocabulary, (pair_R % vocabulary)[:, None]
        if self._cache is None:
            self._unread_RT = torch.cat([self._unread_RT[parent_R], token_R1], dim=1)
            return row_N
        before = torch.arange(len(self._unread_RT), device=parent_R.device)
        if not torch.equal(parent_R, before):
            self._cache.reorder_cache(parent_R)
        self._unread_RT = token_R1
        return row_N


def invert(log_probs_RV: Tensor, uniforms_N: Tensor, row_N: Tensor) -> Tensor:
    """Invert distribution functions: the first token whose cumulative sum exceeds u, (N,).

    A token of probability 0 is never returned. The uniforms are in [0, 1), float64; `row_N`
    is the distribution for each of them.
    """
    sums_RV = log_probs_RV.exp().cumsum(dim=-1, dtype=torch.float64)
    # The uniforms of a row side by side, so that its cumulative sums are not repeated.
    counts_R = torch.bincount(row_N, minlength=len(sums_RV))
    by_row = row_N.argsort()
    column_N = torch.empty_like(row_N)
    column_N[by_row] = torch.arange(len(row_N), device=row_N.device)
    column_N -= (counts_R.cumsum(0) - counts_R)[row_N]
    thresholds = sums_RV.new_zeros(len(sums_RV), int(counts_R.max()))
    # The last sum differs from 1 by rounding; scaling u keeps the token in range.
    thresholds[row_N, column_N] = uniforms_N * sums_RV[row_N, -1]
    return torch.searchsorted(sums_RV, thresholds, right=True)[row_N, column_N]


def _refuse_nan(
    log_probs_RV: Tensor, row_N: Tensor, number_N: Tensor, name: Callable[[int], str]
) -> None:
    bad = torch.isnan(log_probs_RV.sum(dim=-1))
    if bad.any():
        raise InputError(
            f"{name(int(number_N[bad[row_N]][0]))}: the model's log-probabilities are NaN; "
            "check the checkpoint, or use another model.dtype"
        )


def _draw_batch(
    policy: Policy,
    prefix: SharedPrefix,
    uniforms_NT: Tensor,
    row: Tensor,
    name: Callable[[int], str],
) -> Completions:
    """Draw a batch; `row` is the number of each completion's prompt in the prefix.

    For messages `name` says which prompt and completion one of the batch is.
    """
    count, positions = uniforms_NT.shape
    tokens_NT = torch.zeros_like(uniforms_NT, dtype=torch.long)
    log_probs_N = torch.zeros_like(uniforms_NT[:, 0])
    lengths_N = torch.full_like(tokens_NT[:, 0], positions)
    ended_N = torch.zeros_like(lengths_N, dtype=torch.bool)
    # Indices of the unfinished completions; `row` is the beginning that each continues.
    active = torch.arange(count, device=policy.device)
    beginnings = _Beginnings(policy, prefix, positions)
    for position in range(positions):
        log_probs_RV = beginnings.read(policy)
        _refuse_nan(log_probs_RV, row, active, name)
        drawn = invert(log_probs_RV, uniforms_NT[active, position], row)
        tokens_NT[active, position] = drawn
        log_probs_N[active] += log_probs_RV[row, drawn].double()
        ended = _ended(policy, tokens_NT[active, : position + 1])
        ended_N[active[ended]], lengths_N[active[ended]] = True, position + 1
        unfinished = ~ended
        if not unfinished.any() or position + 1 == positions:
            break
        active = active[unfinished]
        row = beginnings.branch(row[unfinished], drawn[unfinished], log_probs_RV.shape[-1])
    drawn_N = (tokens_NT, lengths_N, log_probs_N, ended_N)
    return Completions(*(array.cpu().numpy() for array in drawn_N))


def _ended(policy: Policy, tokens_NT: Tensor) -> Tensor:
    """Whether the last token ended a completion that none before it has ended, (N,)."""
    ends = torch.tensor(policy.end_tokens, dtype=torch.long, device=tokens_NT.device)
    ended_N = torch.isin(tokens_NT[:, -1], ends)
    if policy.stops is None:
        return ended_N
    # Completions with the same beginning are decoded once.
    distinct_RT, row_N = torch.unique(tokens_NT, dim=0, return_inverse=True)
    stopped = [policy.stops.end(tokens) for tokens in distinct_RT.tolist()]
    return ended_N | torch.tensor(stopped, device=row_N.device)[row_N]


@torch.no_grad()
def draw_together(
    policy: Policy,
    prompts: Sequence[list[int]],
    uniforms_PNT: Floats,
    ids: Sequence[str],
    *,
    max_batch: int | None = None,
) -> list[Completions]:
    """Draw N completions of each of P prompts of one length, of at most T tokens.

    Entry (p, n, t) of the uniforms, in [0, 1), draws token t of completion n of prompt p. A
    pass has `max_batch` completions at most, in their order. The `ids` name the prompts in
    messages.
    """
    uniforms = torch.from_numpy(uniforms_PNT).to(policy.device).flatten(0, 1)
    each, most = uniforms_PNT.shape[1], max_batch or len(uniforms)
    prompt = torch.arange(len(uniforms), device=policy.device) // each

    def name(first: int, number: int) -> str:
        at = first + number
        return f"prompt {ids[at // each]}, completion {at % each}"

    parts, span, prefix = list[Completions](), range(0), None
    for first in range(0, len(uniforms), most):
        part = slice(first, first + most)
        those = range(int(prompt[part][0]), int(prompt[part][-1]) + 1)
        if prefix is None or those != span:
            span, prefix = those, SharedPrefix(policy, *(prompts[at] for at in those))
        row, naming = prompt[part] - those.start, partial(name, first)
        parts.append(_draw_batch(policy, prefix, uniforms[part], row, naming))
    drawn = concatenate(parts)
    return [drawn[at : at + each] for at in range(0, len(drawn), each)]
