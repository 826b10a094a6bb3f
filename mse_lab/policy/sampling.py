"""Sampling: draw the pool of a prompt from the policy that is differentiated.

A token is the inverse of the policy's distribution function at a given uniform, so what
is drawn is a pure function of the uniforms. Completions that have begun alike are one row
of the batch until they part, and finished ones leave it.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from mse_lab.errors import InputError
from mse_lab.policy.completions import Completions, concatenate
from mse_lab.policy.policy import Policy
from mse_lab.policy.shared_prefix import SharedPrefix

# Tokens that keys and values are given room for at a time, as far as they may come.
ROOM = 32


class _Roomy(DynamicLayer):
    """Keys and values with room behind them, for drawing.

    The cache it replaces copies all that it holds for every token.
    """

    def __init__(self, layer: DynamicLayer, longest: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        vars(self).update(vars(layer))
        self._longest = longest
        self._rooms: dict[str, Tensor] = {}

    def _append(self, name: str, states: Tensor) -> Tensor:
        held, room = getattr(self, name), self._rooms.get(name)
        length = held.shape[-2] + states.shape[-2]
        if room is None or room.shape[-2] < length:
            count, heads, _, width = states.shape
            tokens = min(length + ROOM, self._longest)
            room = states.new_empty(count, heads, tokens, width)
            room[..., : held.shape[-2], :] = held
            self._rooms[name] = room
        room[..., held.shape[-2] : length, :] = states
        return room[..., :length, :]

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Take the keys and values of further tokens, and give all."""
        if not self.get_seq_length():
            return super().update(key_states, value_states, *args, **kwargs)
        self.keys = self._append("keys", key_states)
        self.values = self._append("values", value_states)
        return self.keys, self.values

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Go on from these rows."""
        super().reorder_cache(beam_idx)
        self._rooms.clear()


def next_log_probabilities(policy: Policy, tokens_RT: Tensor, cache: Any) -> Tensor:
    """Read each row's tokens, advance the cache, and give log pi of the next, (R, V)."""
    return policy.log_probabilities(policy.logits(tokens_RT, cache, kept=1)[:, -1])


class _Beginnings:
    """The distinct beginnings of the unfinished completions, a row of the batch each."""

    def __init__(self, policy: Policy, prefix: SharedPrefix, positions: int) -> None:
        self._cache = prefix.expand(1)
        self._unread_RT = torch.tensor([prefix.unread], device=policy.device)
        if self._cache is not None:
            longest = len(prefix.prompt) - 1 + positions
            self._cache.layers = [
                _Roomy(layer, longest) if type(layer) is DynamicLayer else layer
                for layer in self._cache.layers
            ]

    def read(self, policy: Policy) -> Tensor:
        """Give log pi of every row's next token, (R, V)."""
        return next_log_probabilities(policy, self._unread_RT, self._cache)

    def part(self, row_N: Tensor, drawn_N: Tensor, vocabulary: int) -> Tensor:
        """Let completions part that began alike; give the new row of each."""
        # One number for row and token: pairs would be compared one by one.
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
    """Invert distribution functions: the first token whose sum exceeds u, (N,).

    `row_N` says whose function each of the float64 uniforms, in [0, 1), is put to. A token
    of probability 0 is never given.
    """
    sums_RV = log_probs_RV.exp().cumsum(dim=-1, dtype=torch.float64)
    # Each row's uniforms side by side: looked up together, its sums never repeated.
    counts_R = torch.bincount(row_N, minlength=len(sums_RV))
    by_row = row_N.argsort()
    place_N = torch.empty_like(row_N)
    place_N[by_row] = torch.arange(len(row_N), device=row_N.device)
    place_N -= (counts_R.cumsum(0) - counts_R)[row_N]
    thresholds = sums_RV.new_zeros(len(sums_RV), int(counts_R.max()))
    # Rounding leaves the last sum a little off 1; scaling u keeps it inside.
    thresholds[row_N, place_N] = uniforms_N * sums_RV[row_N, -1]
    return torch.searchsorted(sums_RV, thresholds, right=True)[row_N, place_N]


def _refuse_nan(log_probs_RV: Tensor, row_N: Tensor, number_N: Tensor, where: str) -> None:
    bad = torch.isnan(log_probs_RV.sum(dim=-1))
    if bad.any():
        raise InputError(
            f"{where}, completion {int(number_N[bad[row_N]][0])}: the model's "
            "log-probabilities are NaN; check the checkpoint, or use another model.dtype"
        )


def _draw_batch(
    policy: Policy, prefix: SharedPrefix, uniforms_NT: Tensor, first: int, prompt_id: str
) -> Completions:
    count, positions = uniforms_NT.shape
    ends = torch.tensor(policy.end_tokens, dtype=torch.long, device=policy.device)
    tokens_NT = torch.zeros_like(uniforms_NT, dtype=torch.long)
    log_probs_N = torch.zeros_like(uniforms_NT[:, 0])
    # Of the unfinished completions: which they are, and the row of the batch of each.
    active = torch.arange(count, device=policy.device)
    row = torch.zeros_like(active)
    beginnings = _Beginnings(policy, prefix, positions)
    for position in range(positions):
        log_probs_RV = beginnings.read(policy)
        _refuse_nan(log_probs_RV, row, first + active, f"prompt {prompt_id}")
        drawn = invert(log_probs_RV, uniforms_NT[active, position], row)
        tokens_NT[active, position] = drawn
        log_probs_N[active] += log_probs_RV[row, drawn].double()
        going_on = ~torch.isin(drawn, ends)
        if not going_on.any() or position + 1 == positions:
            break
        active = active[going_on]
        row = beginnings.part(row[going_on], drawn[going_on], log_probs_RV.shape[-1])
    found = tokens_NT.cpu().numpy(), log_probs_N.cpu().numpy()
    return Completions.ending(*found, policy.end_tokens)


@torch.no_grad()
def draw(
    policy: Policy,
    prompt: list[int],
    uniforms_NT: NDArray[np.float64],
    prompt_id: str,
    *,
    max_batch: int | None = None,
) -> Completions:
    """Draw N completions of a prompt, of at most T tokens.

    Entry (n, t) of `uniforms_NT`, in [0, 1), draws token t of completion n. At most
    `max_batch` are drawn in one pass; None for all.
    """
    prefix = SharedPrefix(policy, prompt)
    uniforms = torch.from_numpy(uniforms_NT).to(policy.device)
    most = max_batch or len(uniforms)
    batches = zip(range(0, len(uniforms), most), uniforms.split(most), strict=True)
    return concatenate(
        [_draw_batch(policy, prefix, batch, at, prompt_id) for at, batch in batches]
    )
