"""The work of a stage: how many tokens in how many passes, by the completions' lengths.

The same functions serve what a trial has done and what a run will do, so both split the
completions into the same batches.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mse_lab.scores import Scoring

Lengths = NDArray[np.int64]


class Work(NamedTuple):
    """Work of one stage.

    Attributes:
        completions: Completions.
        prompt_tokens: Tokens of prompts that the model reads; once for all completions
            where the prompt is shared.
        tokens: Tokens of completions that it reads, padding included.
        steps: Passes through the model, each with a cost of its own.
    """

    completions: float = 0
    prompt_tokens: float = 0
    tokens: float = 0
    steps: float = 0

    def __add__(self, other: object) -> "Work":
        """Do both."""
        assert isinstance(other, Work)
        return Work(*(mine + its for mine, its in zip(self, other, strict=True)))

    def times(self, factor: float) -> "Work":
        """Do it so many times."""
        return Work(*(factor * part for part in self))


def _batches(lengths_N: Lengths, size: int) -> Iterator[Lengths]:
    for start in range(0, len(lengths_N), size):
        yield lengths_N[start : start + size]


def drawing_work(lengths_N: Lengths, prompt: float, batch: int) -> Work:
    """Draw a pool: the prompt once, then a token of each unfinished completion a step.

    The last token of the prompt is read with the completions.

    >>> drawing_work(np.array([2, 3, 1]), 10, batch=2)
    Work(completions=3, prompt_tokens=9, tokens=6, steps=5)
    """
    steps = sum(int(part.max()) for part in _batches(lengths_N, batch))
    return Work(len(lengths_N), prompt - 1, int(lengths_N.sum()), 1 + steps)


def reference_work(lengths_N: Lengths, prompt: float, batch: int) -> Work:
    """Differentiate two halves: each the prompt once, and batches padded to the longest.

    >>> reference_work(np.array([2, 3, 1, 1]), 10, batch=2)
    Work(completions=4, prompt_tokens=18, tokens=8, steps=4)
    """
    tokens = steps = 0
    for half in np.split(lengths_N, 2):
        for part in _batches(half, batch):
            tokens += len(part) * int(part.max())
            steps += 1
    return Work(len(lengths_N), 2 * (prompt - 1), tokens, 2 + steps)


def scoring_work(lengths_N: Lengths, prompt: float, how: Scoring, group: int) -> Work:
    """Score blocks: each completion with its prompt, padded to the longest.

    Args:
        lengths_N: The completions' tokens.
        prompt: Tokens of the prompt.
        how: How a block is scored.
        group: The largest group size, that of a block.

    >>> scoring_work(np.array([2, 3, 1, 1]), 10, Scoring(2), group=2)
    Work(completions=4, prompt_tokens=36, tokens=8, steps=2)
    """
    tokens = steps = 0
    for block in _batches(lengths_N, group):
        for part in _batches(block, how.block):
            tokens += len(part) * int(part.max())
            steps += 1 if how.layer is None else -(-len(part) // how.layer)
    return Work(len(lengths_N), len(lengths_N) * (prompt - 1), tokens, steps)
