"""Times of several ways to the same thing, taken in turn, and their ratios."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

SHORTEST = 0.1  # Pieces shorter than so many seconds are timed several times over.


class Ratio(NamedTuple):
    """A ratio of times over the rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        digits = 1 if self.median >= 10 else 2
        median, low, high = (f"{one:.{digits}f}" for one in self)
        return f"{median} ({low} to {high})"


def ratio(slower: Sequence[float], faster: Sequence[float]) -> Ratio:
    """Divide round by round.

    >>> print(ratio([2.0, 9.0, 4.0], [1.0, 3.0, 4.0]))
    2.00 (1.00 to 3.00)
    """
    ratios = [top / bottom for top, bottom in zip(slower, faster, strict=True)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def seconds(work: Callable[[], object]) -> float:
    """Time a piece of work by the wall clock."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def piece(work: Callable[[], object]) -> float:
    """Time a piece, on average over enough calls."""
    first = seconds(work)
    calls = int(SHORTEST / first)
    return (first + sum(seconds(work) for _ in range(calls))) / (1 + calls)


def take_turns(ways: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Any]:
    """Let every way measure itself once a round; give name -> seconds of each round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways) if number % 2 == 0 else reversed(list(ways)):
            times[name].append(ways[name]())
    return {name: np.array(own) for name, own in times.items()}
