"""Completions of a prompt: their tokens, lengths and log-probabilities.

A completion ends with the first end token, which belongs to it, or is truncated at the last
position. Nothing else ends it: there are no stop strings.
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
        tokens_NT: Token ids; those after a completion's length mean nothing.
        lengths_N: Number of tokens up to and including the first end token, or T.
        log_probs_N: Summed log-probability that the tokens were drawn with.
        ended_N: Whether an end token was drawn; the other completions were truncated.
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
        """Make completions from padded tokens; those without an end token have length T."""
        ends_NT = np.isin(tokens_NT, end_tokens)
        ended_N = ends_NT.sum(1) > 0
        lengths_N = np.where(ended_N, ends_NT.argmax(1) + 1, tokens_NT.shape[1])
        return cls(tokens_NT, lengths_N, log_probs_N, ended_N)

    @classmethod
    def of_each(
        cls,
        unpadded: Sequence[NDArray[np.int64]],
        positions: int,
        log_probs: Sequence[float],
        end_tokens: Sequence[int],
    ) -> "Completions":
        """Make completions from unpadded tokens; those without an end token were truncated.

        Args:
            unpadded: The tokens of each completion, from 1 to `positions`.
            positions: T, the most tokens that are drawn.
            log_probs: The log-probability of each completion.
            end_tokens: Token ids that end a completion.
        """
        tokens_NT = np.zeros((len(unpadded), positions), np.int64)
        for row, tokens in enumerate(unpadded):
            tokens_NT[row, : len(tokens)] = tokens
        lengths_N = np.array([len(tokens) for tokens in unpadded])
        ended_N = np.isin([tokens[-1] for tokens in unpadded], end_tokens)
        return cls(tokens_NT, lengths_N, np.array(log_probs), ended_N)

    def __len__(self) -> int:
        return len(self.lengths_N)

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> "Completions":
        return Completions(*(array[rows] for array in vars(self).values()))

    @property
    def unpadded(self) -> list[NDArray[np.int64]]:
        """Each completion's tokens, up to its length."""
        pairs = zip(self.tokens_NT, self.lengths_N, strict=True)
        return [tokens[:length] for tokens, length in pairs]

    def distinct(self) -> tuple["Completions", NDArray[np.int64]]:
        """Leave out repetitions: equal completions have equal scores.

        Returns:
            The distinct completions in order of their first occurrence, and for each of
            the N completions its index among them.
        """
        indices: dict[bytes, int] = {}
        index_N = np.array(
            [indices.setdefault(tokens.tobytes(), len(indices)) for tokens in self.unpadded]
        )
        return self[np.unique(index_N, return_index=True)[1]], index_N

    def texts(self, policy: Policy) -> list[str]:
        """Decode each completion, up to its first end token."""
        distinct, index_N = self.distinct()
        texts = [policy.decode(tokens.tolist()) for tokens in distinct.unpadded]
        return [texts[index] for index in index_N]


def concatenate(parts: list[Completions]) -> Completions:
    """Concatenate completions of a prompt."""
    arrays = zip(*(vars(part).values() for part in parts), strict=True)
    return Completions(*map(np.concatenate, arrays))
