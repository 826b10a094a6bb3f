"""Completions of a prompt: their tokens, lengths and log-probabilities.

A completion ends with the first end token, or the first token that completes a stop string;
that token belongs to it. Else it is truncated at the last position.

With a mask, tokens of a tool or an environment stand between the policy's own tokens, which
the policy drew. They are context: log pi(Y | x) and the score are sums over the policy's
own tokens, each given all tokens before it. Since E[grad log pi(y_t | x, y_<t)] = 0 whoever
wrote y_<t, the mean score is zero all the same. Tokens after the last own one are context
of none, and are left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.policy.policy import Policy


@dataclass(frozen=True)
class Completions:
    """The completions of a prompt."""

    tokens_NT: Ints  # Token ids; those after a completion's length mean nothing.
    lengths_N: Ints  # Number of tokens up to and including the one that ends it, or T.
    log_probs_N: Floats  # Summed log-probability that the tokens were drawn with.
    # Whether a token of its own, or the environment, ended it; others were truncated.
    ended_N: Flags
    # Whether the policy drew a token; None where it drew all up to the length.
    mask_NT: Flags | None = None

    @classmethod
    def of_each(
        cls,
        unpadded: Sequence[Ints],
        positions: int,
        log_probs: Sequence[float],
        ends: Callable[[Sequence[int]], bool],
        masks: Sequence[Flags] | None = None,
    ) -> "Completions":
        """Make completions from unpadded tokens; those that do not end were truncated.

        Each has from 1 to `positions` tokens; `ends` says whether the last of them ended it
        (`Policy.ends`). Where masks say which tokens the policy drew,
        the tokens after its last one are left out; the environment has ended such a
        completion.
        """
        given_N = np.array([len(tokens) for tokens in unpadded])
        if masks is not None:
            masks = [np.trim_zeros(mask, "b") for mask in masks]
            pairs = zip(unpadded, masks, strict=True)
            unpadded = [tokens[: len(mask)] for tokens, mask in pairs]
        tokens_NT = padded(unpadded, positions, np.int64)
        mask_NT = None if masks is None else padded(masks, positions, np.bool_)
        lengths_N = np.array([len(tokens) for tokens in unpadded])
        ended_N = (lengths_N < given_N) | [ends(tokens.tolist()) for tokens in unpadded]
        return cls(tokens_NT, lengths_N, np.array(log_probs), ended_N, mask_NT)

    def __len__(self) -> int:
        return len(self.lengths_N)

    def __getitem__(self, rows: slice | Ints) -> "Completions":
        cut: dict[str, Any] = {
            name: array[rows] for name, array in vars(self).items() if array is not None
        }
        return Completions(**cut)

    def scored_NT(self, positions: int) -> Flags:
        """Whether each of the first `positions` tokens is the policy's own, (N, T)."""
        scored_NT = np.arange(positions) < self.lengths_N[:, None]
        if self.mask_NT is not None:
            mask_NT = self.mask_NT[:, :positions]
            scored_NT[:, : mask_NT.shape[1]] &= mask_NT
        return scored_NT

    @property
    def scored_lengths_N(self) -> Ints:
        """Number of the policy's own tokens: the length that estimators take."""
        if self.mask_NT is None:
            return self.lengths_N
        return self.scored_NT(self.tokens_NT.shape[1]).sum(1)

    @property
    def unpadded(self) -> list[Ints]:
        """Each completion's tokens, up to its length."""
        pairs = zip(self.tokens_NT, self.lengths_N, strict=True)
        return [tokens[:length] for tokens, length in pairs]

    def distinct(self) -> tuple["Completions", Ints]:
        """Leave out repetitions: equal tokens and masks have equal scores.

        The distinct ones are in the order of their first occurrence; with them comes the
        index of each completion among them.
        """
        keys = [tokens.tobytes() for tokens in self.unpadded]
        if self.mask_NT is not None:
            rows = zip(keys, self.mask_NT, self.lengths_N, strict=True)
            keys = [key + mask[:length].tobytes() for key, mask, length in rows]
        indices: dict[bytes, int] = {}
        index_N = np.array([indices.setdefault(key, len(indices)) for key in keys])
        return self[np.unique(index_N, return_index=True)[1]], index_N

    def texts(self, policy: Policy) -> list[str]:
        """Decode each completion, up to its first end token; with a mask, all of it."""
        distinct, index_N = self.distinct()
        turns = self.mask_NT is not None
        texts = [policy.decode(row.tolist(), turns=turns) for row in distinct.unpadded]
        return [texts[index] for index in index_N]


def concatenate(parts: list[Completions]) -> Completions:
    """Concatenate completions of a prompt."""
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name, array in vars(parts[0]).items()
        if array is not None
    }
    return Completions(**joined)


def padded(
    rows: Sequence[NDArray[Any]], positions: int, kind: type[np.generic]
) -> NDArray[Any]:
    """Lay rows out as one array of so many positions, zero after each, (N, T)."""
    padded_NT = np.zeros((len(rows), positions), kind)
    for padded_T, row in zip(padded_NT, rows, strict=True):
        padded_T[: len(row)] = row
    return padded_NT
