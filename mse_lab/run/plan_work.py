"""The work of a stage: how many tokens in how many passes, nothing done twice.

The same functions serve what a trial has done and what a run will do, so both split the
completions into the same batches. What a trial has done is known exactly, from its
completions; of a run it is expected (`repeats.py`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mse_lab.policy.completions import Completions
from mse_lab.scores.block import Scoring
from mse_lab.scores.reference import in_passes

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


class Batch(NamedTuple):
    """Completions that are drawn at once.

    Attributes:
        completions: How many.
        rows: Their distinct beginnings that go on; the model reads a token after each.
        longest: Tokens of the longest.
    """

    completions: int
    rows: float
    longest: float


def beginnings(completions: Completions) -> list[NDArray[np.int64]]:
    """Count, step by step, the unfinished completions that have each distinct beginning.

    >>> tokens = np.array([[5, 7, 1], [5, 1, 0], [6, 7, 7]])
    >>> drawn = Completions(tokens, np.array([3, 2, 3]), np.zeros(3), np.ones(3, bool))
    >>> [counts.tolist() for counts in beginnings(drawn)]
    [[3], [2, 1], [1, 1]]
    """
    tokens_NT, lengths_N = completions.tokens_NT, completions.lengths_N
    kinds, row_N = int(tokens_NT.max()) + 1, np.zeros(len(completions), dtype=np.int64)
    counts = [np.bincount(row_N)]
    for step in range(1, int(lengths_N.max())):
        active = lengths_N > step
        parted = row_N[active] * kinds + tokens_NT[active, step - 1]
        _, row_N[active], found = np.unique(parted, return_inverse=True, return_counts=True)
        counts.append(found)
    return counts


def drawn_batches(completions: Completions, size: int) -> list[Batch]:
    """Split completions into the batches that they were drawn in."""
    parts = [completions[at : at + size] for at in range(0, len(completions), size)]
    return [
        Batch(len(part), sum(map(len, beginnings(part))), int(part.lengths_N.max()))
        for part in parts
    ]


def in_parts(lengths_D: Lengths, size: int) -> list[Lengths]:
    """Split the distinct completions of a block into those that are scored together."""
    return [lengths_D[at : at + size] for at in range(0, len(lengths_D), size)]


def drawing_work(batches: Sequence[Batch], prompt: float) -> Work:
    """Draw a pool: the prompt once, then a token of each distinct beginning a step.

    The last token of the prompt is read with the completions.

    >>> drawing_work([Batch(2, 4, 3), Batch(1, 1, 1)], 10)
    Work(completions=3, prompt_tokens=9, tokens=5, steps=5)
    """
    completions, rows, longest = (sum(part) for part in zip(*batches, strict=True))
    return Work(completions, prompt - 1, rows, 1 + longest)


def reference_work(
    halves: Sequence[Lengths], completions: int, prompt: float, batch: int
) -> Work:
    """Differentiate two halves: each the prompt once, and passes padded to the longest.

    Args:
        halves: Tokens of each half's distinct completions.
        completions: Completions of both, distinct or not.
        prompt: Tokens of the prompt.
        batch: Completions in a pass at most.

    >>> reference_work([np.array([2, 3, 1]), np.array([1])], 8, 10, batch=2)
    Work(completions=8, prompt_tokens=18, tokens=8, steps=5)
    """
    passes = [half[part] for half in halves for part in in_passes(half, batch)]
    tokens = sum(len(part) * int(part.max()) for part in passes)
    steps = len(halves) + len(passes)
    return Work(completions, len(halves) * (prompt - 1), tokens, steps)


def scoring_work(
    parts: Sequence[Lengths], completions: int, prompt: float, how: Scoring
) -> Work:
    """Score blocks: each distinct completion with its prompt, padded to the longest.

    Args:
        parts: Tokens of the distinct completions that are scored together.
        completions: Completions of all blocks, distinct or not.
        prompt: Tokens of the prompt.
        how: How a block is scored.

    >>> scoring_work([np.array([2, 3]), np.array([1])], 4, 10, Scoring(2))
    Work(completions=4, prompt_tokens=27, tokens=7, steps=2)
    """
    tokens = sum(len(part) * int(part.max()) for part in parts)
    steps = sum(-(-len(part) // (how.layer or len(part))) for part in parts)
    return Work(completions, sum(map(len, parts)) * (prompt - 1), tokens, steps)
