"""Completions of a prompt: their tokens, lengths and log-probabilities.

A completion ends with the first end token that is drawn, which belongs to it, or is cut at
the last position; nothing else stops it, a stop string neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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

    @classmethod
    def ending(
        cls,
        tokens_NT: NDArray[np.int64],
        log_probs_N: NDArray[np.float64],
        end_tokens: Sequence[int],
    ) -> "Completions":
        """Find where completions end; those without an end token were cut at T."""
        ends_NT = np.isin(tokens_NT, end_tokens)
        ended_N = ends_NT.sum(1) > 0
        lengths_N = np.where(ended_N, ends_NT.argmax(1) + 1, tokens_NT.shape[1])
        return cls(tokens_NT, lengths_N, log_probs_N, ended_N)

    @classmethod
    def of_each(
        cls,
        own_tokens: Sequence[NDArray[np.int64]],
        positions: int,
        log_probs: Sequence[float],
        end_tokens: Sequence[int],
    ) -> "Completions":
        """Take completions whose lengths are known: those without an end token were cut.

        Args:
            own_tokens: The tokens of each, one at least and `positions` at most.
            positions: T, the most that are drawn.
            log_probs: The log-probability of each.
            end_tokens: What ends a completion, always its last token.
        """
        tokens_NT = np.zeros((len(own_tokens), positions), np.int64)
        for row, tokens in enumerate(own_tokens):
            tokens_NT[row, : len(tokens)] = tokens
        lengths_N = np.array([len(tokens) for tokens in own_tokens])
        ended_N = np.isin([tokens[-1] for tokens in own_tokens], end_tokens)
        return cls(tokens_NT, lengths_N, np.array(log_probs), ended_N)

    def __len__(self) -> int:
        return len(self.lengths_N)

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> "Completions":
        return Completions(*(array[rows] for array in vars(self).values()))

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
    arrays = zip(*(vars(part).values() for part in parts), strict=True)
    return Completions(*map(np.concatenate, arrays))
