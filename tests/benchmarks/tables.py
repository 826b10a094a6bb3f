"""What is made of measurements: ratios of times, fitted powers, tables in Markdown.

Times are taken in turn in one process: a machine drifts, and two times taken one after the
other share most of it. Every round runs each way once, every other round backwards, and a
ratio is formed inside a round. What is reported is the median of the rounds' ratios, with
the smallest and the largest.
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

Times = dict[str, list[float]]


class Ratio(NamedTuple):
    """A ratio of times."""

    median: float  # Over the rounds.
    low: float  # The smallest.
    high: float  # The largest.

    def __str__(self) -> str:
        digits = 1 if self.median >= 10 else 2
        low, high = f"{self.low:.{digits}f}", f"{self.high:.{digits}f}"
        return f"{self.median:.{digits}f} ({low} to {high})"


def seconds(work: Callable[[], object]) -> float:
    """Time a piece of work by the wall clock."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def take_turns(ways: Mapping[str, Callable[[], float]], rounds: int) -> Times:
    """Let every way measure itself once a round.

    Args:
        ways: Name -> function that returns the seconds it needs, scaled where it says so.
        rounds: Number of rounds.

    Returns:
        Name -> seconds of each round.
    """
    times: Times = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways) if number % 2 == 0 else reversed(list(ways)):
            times[name].append(ways[name]())
    return times


def ratio(slower: Sequence[float], faster: Sequence[float]) -> Ratio:
    """Divide round by round.

    >>> print(ratio([2.0, 9.0, 4.0], [1.0, 3.0, 4.0]))
    2.00 (1.00 to 3.00)
    """
    ratios = [top / bottom for top, bottom in zip(slower, faster, strict=True)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def verdict(target: str, missed: Sequence[str]) -> str:
    """Say whether a target is met.

    >>> verdict("at least 8", [])
    'Target, at least 8: met.'
    >>> verdict("at least 8", ["tiny"])
    'Target, at least 8: missed by tiny.'
    """
    outcome = f"missed by {'; '.join(missed)}" if missed else "met"
    return f"Target, {target}: {outcome}."


class Fit(NamedTuple):
    """y = factor x^exponent."""

    factor: float  # At x = 1.
    exponent: float  # The power.
    error: float  # Its standard error; NaN with fewer than three points.

    def __str__(self) -> str:
        if math.isnan(self.error):
            return f"{self.exponent:.2f}"
        return f"{self.exponent:.2f} ± {self.error:.2f}"

    def at(self, x: float) -> float:
        """Give y at x."""
        return self.factor * x**self.exponent

    def solve(self, y: float) -> float:
        """Give the x at which y is reached."""
        return (y / self.factor) ** (1 / self.exponent)


def fit_power(x: Sequence[float], y: Sequence[float]) -> Fit:
    """Fit a power of x to y, both positive.

    >>> round(fit_power([1, 2, 4], [3, 12, 48]).exponent, 6)
    2.0
    """
    line = stats.linregress(np.log(x), np.log(y))
    error = float(line.stderr) if len(x) > 2 else math.nan
    return Fit(math.exp(line.intercept), float(line.slope), error)


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """Write a table; the first column is text, the others are numbers.

    >>> print(table(["a", "b"], [["x", 1]]))
    | a | b |
    |---|--:|
    | x | 1 |
    """
    lines = [head, *rows]
    written = [f"| {' | '.join(str(cell) for cell in line)} |" for line in lines]
    written.insert(1, "|---|" + "--:|" * (len(head) - 1))
    return "\n".join(written)
