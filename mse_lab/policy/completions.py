"""Completions: draw the pool of a prompt from the policy that is differentiated.

A token is the inverse of the policy's distribution function at a given uniform, so what
is drawn is a pure function of the uniforms. The prompt's keys and values are computed
once and shared by its completions. Completions that have begun alike are one row of the
batch until they part, and finished ones leave it.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import (
    DummyLayer,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionCacheLayerMixin,
)

from mse_lab.errors import InputError
from mse_lab.policy.policy import Policy


@dataclass(frozen=True)
class Completions:
    """The completions of a prompt.

    Attributes:
        tokens_NT: Token ids; what stands after a completion's length means nothing.
        lengths_N: Tokens up to and with the first end token, or all where there is none.
        log_probs_N: Summed log-probability that the tokens were drawn with.
        ended_N: Whether an end token was drawn; the others were cut.
    """

    tokens_NT: NDArray[np.int64]
    lengths_N: NDArray[np.int64]
    log_probs_N: NDArray[np.float64]
    ended_N: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.lengths_N)

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> "Completions":
        return Completions(
            self.tokens_NT[rows],
            self.lengths_N[rows],
            self.log_probs_N[rows],
            self.ended_N[rows],
        )

    @property
    def own_tokens(self) -> list[NDArray[np.int64]]:
        """Each completion's tokens, up to its length."""
        pairs = zip(self.tokens_NT, self.lengths_N, strict=True)
        return [tokens[:length] for tokens, length in pairs]

    def distinct(self) -> tuple["Completions", NDArray[np.int64]]:
        """Leave out repetitions: equal completions have equal scores.

        Returns:
            The distinct completions in order of their first occurrence, and for each of
            the N its place among them.
        """
        places: dict[bytes, int] = {}
        place_N = np.array(
            [places.setdefault(own.tobytes(), len(places)) for own in self.own_tokens]
        )
        return self[np.unique(place_N, return_index=True)[1]], place_N

    def texts(self, policy: Policy) -> list[str]:
        """Decode each completion, up to its first end token."""
        distinct, place_N = self.distinct()
        texts = [policy.decode(own.tolist()) for own in distinct.own_tokens]
        return [texts[place] for place in place_N]


def concatenate(parts: list[Completions]) -> Completions:
    """Join completions of one prompt, in order."""
    return Completions(
        np.concatenate([part.tokens_NT for part in parts]),
        np.concatenate([part.lengths_N for part in parts]),
        np.concatenate([part.log_probs_N for part in parts]),
        np.concatenate([part.ended_N for part in parts]),
    )


# Tokens that keys and values are given room for at a time, as far as they may come.
ROOM = 32

# Of these a batch may share the prompt's part, and gradients come back through it; states
# of linear attention, convolutions and the like are written over from token to token.
_SHARED = (DynamicLayer, DynamicSlidingWindowLayer, DummyLayer)


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


def _is_filled(layer: Any) -> bool:
    """Whether a layer of a cache holds what it is there for."""
    if isinstance(layer, LinearAttentionCacheLayerMixin):
        return all(layer.has_previous_state.values())
    return isinstance(layer, DummyLayer) or layer.get_seq_length() > 0


class SharedPrefix:
    """Keys and values of all prompt tokens but the last, computed once.

    The last prompt token is fed together with a completion's own tokens, so that all of
    the completion's logits come from one forward pass. A model that keeps other states
    than keys and values has them computed once for drawing alone.
    """

    def __init__(self, policy: Policy, prompt: list[int]) -> None:
        self.prompt = prompt
        self.last_token = prompt[-1]
        self.cache: Any = DynamicCache(config=policy.model.config)
        self.shared = all(type(layer) in _SHARED for layer in self.cache.layers)
        if len(prompt) > 1:
            with torch.set_grad_enabled(self.shared and torch.is_grad_enabled()):
                self._fill(policy)

    def _fill(self, policy: Policy) -> None:
        tokens = torch.tensor([self.prompt[:-1]], device=policy.device)
        kind = type(policy.model).__name__
        try:
            policy.model(
                tokens, past_key_values=self.cache, use_cache=True, logits_to_keep=1
            )
        except ValueError as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(
                f"model.path: {kind} cannot be drawn from: {reason}; use another model"
            ) from None
        if not all(map(_is_filled, self.cache.layers)):
            raise InputError(
                f"model.path: {kind} cannot be drawn from: it does not use the cache that "
                "it is given; use another model"
            )

    def _with(self, change: Callable[[Tensor], Tensor]) -> Any:
        """Copy the cache, its tensors changed."""
        cache = copy.copy(self.cache)
        cache.layers = [copy.copy(layer) for layer in self.cache.layers]
        for layer in cache.layers:
            if layer.get_seq_length():
                layer.keys, layer.values = change(layer.keys), change(layer.values)
        return cache

    def tensors(self) -> list[Tensor]:
        """List the keys and values of all layers, where they are shared."""
        if not self.shared:
            return []
        filled = [layer for layer in self.cache.layers if layer.get_seq_length()]
        return [tensor for layer in filled for tensor in (layer.keys, layer.values)]

    def expand(self, completions: int) -> Any:
        """Give a cache for so many completions, without copying the prompt's part."""
        if not self.shared:
            states = copy.deepcopy(self.cache)
            states.reorder_cache(torch.zeros(completions, dtype=torch.long))
            return states
        return self._with(lambda tensor: tensor.expand(completions, -1, -1, -1))

    def detached(self) -> "SharedPrefix":
        """Cut the graph: a prefix that collects gradients at its keys and values."""
        if not self.shared:
            return self
        cut = copy.copy(self)
        cut.cache = self._with(
            lambda tensor: tensor.detach().requires_grad_(tensor.requires_grad)
        )
        return cut

    def backward(self, cut: "SharedPrefix") -> None:
        """Continue the backward pass from what `cut` has collected."""
        pairs = [
            (tensor, leaf.grad)
            for tensor, leaf in zip(self.tensors(), cut.tensors(), strict=True)
            if leaf.grad is not None
        ]
        if pairs:
            tensors, gradients = zip(*pairs, strict=True)
            torch.autograd.backward(tensors, gradients)


def completion_logits(policy: Policy, prefix: SharedPrefix, tokens_NT: Tensor) -> Tensor:
    """Compute the logits of each token of completions after a prompt, (N, T, V)."""
    count, length = tokens_NT.shape
    known = [prefix.last_token] if prefix.shared else prefix.prompt
    start = torch.tensor(known, device=tokens_NT.device).expand(count, -1)
    inputs = torch.cat([start, tokens_NT[:, :-1]], dim=1)
    if not prefix.shared:
        return policy.model(inputs, use_cache=False, logits_to_keep=length).logits
    return policy.model(inputs, past_key_values=prefix.expand(count), use_cache=True).logits


def next_log_probabilities(policy: Policy, tokens_N1: Tensor, cache: Any) -> Tensor:
    """Advance the cache by one token and give log pi of the next, (N, V)."""
    output = policy.model(
        tokens_N1, past_key_values=cache, use_cache=True, logits_to_keep=1
    )
    return policy.log_probabilities(output.logits[:, -1])


def invert(log_probs_RV: Tensor, uniforms_N: Tensor, row_N: Tensor) -> Tensor:
    """Invert a row's distribution function: the first token whose sum exceeds u.

    Args:
        log_probs_RV: Log-probabilities of each row.
        uniforms_N: Float64 in [0, 1).
        row_N: The row of each.

    Returns:
        Token ids (N,); a token of probability 0 is never given.
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


def _part(row_N: Tensor, drawn_N: Tensor, vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    """Let completions part that began alike: (rows to go on from, tokens, row of each)."""
    # One number for row and token: pairs would be compared one by one.
    pair_N = row_N * vocabulary + drawn_N
    beginnings, row_N = torch.unique(pair_N, return_inverse=True)
    return beginnings // vocabulary, beginnings % vocabulary, row_N


def _refuse_nan(log_probs_RV: Tensor, row_N: Tensor, number_N: Tensor, where: str) -> None:
    bad = torch.isnan(log_probs_RV.sum(dim=-1))
    if bad.any():
        raise InputError(
            f"{where}, completion {int(number_N[bad[row_N]][0])}: the model's "
            "log-probabilities are NaN; check the checkpoint, or use another model.dtype"
        )


@torch.no_grad()
def _draw_batch(
    policy: Policy,
    prefix: SharedPrefix,
    uniforms_NT: NDArray[np.float64],
    first: int,
    prompt_id: str,
) -> Completions:
    count, positions = uniforms_NT.shape
    device = policy.device
    uniforms = torch.from_numpy(uniforms_NT).to(device)
    ends = torch.tensor(policy.end_tokens, dtype=torch.long, device=device)
    tokens = torch.zeros(count, positions, dtype=torch.long, device=device)
    lengths = torch.full((count,), positions, device=device)
    log_probs = torch.zeros(count, dtype=torch.float64, device=device)
    ended = torch.zeros(count, dtype=torch.bool, device=device)
    # Of the unfinished completions: which they are, and the row of the batch of each.
    active = torch.arange(count, device=device)
    row = torch.zeros_like(active)
    cache = prefix.expand(1)
    longest = len(prefix.prompt) - 1 + positions
    cache.layers = [
        _Roomy(layer, longest) if type(layer) is DynamicLayer else layer
        for layer in cache.layers
    ]
    inputs = torch.full((1,), prefix.last_token, device=device)
    for position in range(positions):
        log_probs_RV = next_log_probabilities(policy, inputs[:, None], cache)
        _refuse_nan(log_probs_RV, row, first + active, f"prompt {prompt_id}")
        drawn = invert(log_probs_RV, uniforms[active, position], row)
        tokens[active, position] = drawn
        log_probs[active] += log_probs_RV[row, drawn].double()
        ending = torch.isin(drawn, ends)
        lengths[active[ending]] = position + 1
        ended[active[ending]] = True
        if ending.all() or position + 1 == positions:
            break
        active, rows = active[~ending], len(inputs)
        vocabulary = log_probs_RV.shape[-1]
        parents, inputs, row = _part(row[~ending], drawn[~ending], vocabulary)
        if not torch.equal(parents, torch.arange(rows, device=device)):
            cache.reorder_cache(parents)
    return Completions(
        tokens.cpu().numpy(),
        lengths.cpu().numpy(),
        log_probs.cpu().numpy(),
        ended.cpu().numpy(),
    )


@torch.no_grad()
def draw(
    policy: Policy, prompt: list[int], uniforms_NT: NDArray[np.float64], prompt_id: str
) -> Completions:
    """Draw completions of a prompt from the policy, one for each row of uniforms.

    Args:
        policy: The policy.
        prompt: The prompt's token ids.
        uniforms_NT: In [0, 1); entry (n, t) draws token t of completion n.
        prompt_id: The prompt's id, for messages.

    Returns:
        N completions of at most T tokens.

    Raises:
        InputError: The model yields NaN; the message names prompt and completion.
    """
    prefix = SharedPrefix(policy, prompt)
    starts = range(0, len(uniforms_NT), policy.batch)
    return concatenate(
        [
            _draw_batch(
                policy, prefix, uniforms_NT[start : start + policy.batch], start, prompt_id
            )
            for start in starts
        ]
    )
