"""Repeats: how many of k completions are distinct, told by n that a trial has met.

A run does nothing twice: equal completions are differentiated once, and those that have
begun alike are one row of the batch until they part. Where m_j of the n completions are the
j-th of the distinct ones, k of the n hold

    sum_j [1 - C(n - m_j, k) / C(n, k)]

distinct ones on average (rarefaction), and so are k of a run expected to. Distinct
beginnings are counted alike, m_j the completions that begin so, and the tokens of the
longest of k, m_t the completions that have more than t.

Beyond n a power law goes on (Heaps), that through the curve at n/2 and n. The curve is
concave: the law gives no fewer than at n, and no more than in proportion to k.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from mse_lab.arrays import Floats
from mse_lab.policy.completions import Completions
from mse_lab.run.plan_work import Batch, Lengths, beginnings

# Share of distinct completions above which repeats are not worth a word.
DISTINCT = 0.99


@cache
def _chances(n: int, k: int) -> Floats:
    """Chance that k of n hold one of m of them, for m = 0 to n."""
    rest = n - np.arange(n + 1)
    none = gammaln(rest + 1) + gammaln(n - k + 1) - gammaln(n + 1)
    none -= gammaln(np.maximum(rest - k, 0) + 1)
    return -np.expm1(np.where(rest < k, -np.inf, none))


def expected_distinct(counts_J: NDArray[np.int64], n: int, k: int) -> float:
    """How many distinct ones k are expected to hold.

    Args:
        counts_J: How many of the n are the j-th of those that are distinct; not all of the
            n need be among them.
        n: How many were met, two at least.
        k: How many are asked about.

    >>> pairs = np.array([2, 2])  # any two of aabb: in 4 cases of 6 an a and a b
    >>> round(expected_distinct(pairs, 4, 2), 6)
    1.666667
    >>> round(expected_distinct(np.ones(4, int), 4, 12), 6)
    12.0
    >>> round(expected_distinct(np.array([4]), 4, 12), 6)
    1.0
    """
    if k <= n:
        return float(_chances(n, k)[counts_J].sum())
    half = n // 2
    growth = math.log(len(counts_J) / expected_distinct(counts_J, n, half))
    return float(len(counts_J) * (k / n) ** (growth / math.log(n / half)))


def lengthened(
    completions: Completions,
    longest: int,
    chosen_N: NDArray[np.bool_],
    name_N: NDArray[np.int64],
) -> Completions:
    """Let completions go on to the longest, each of a name with a token of its own.

    Args:
        completions: The completions.
        longest: Tokens of the longest.
        chosen_N: Which of them go on.
        name_N: Those of the same name go on alike.
    """
    before, count = completions.tokens_NT, len(completions)
    tokens_NT = np.zeros((count, max(longest, before.shape[1])), dtype=np.int64)
    tokens_NT[:, : before.shape[1]] = before
    beyond_NT = np.arange(tokens_NT.shape[1]) >= completions.lengths_N[:, None]
    own_N = before.max() + 1 + name_N
    return Completions(
        np.where(beyond_NT & chosen_N[:, None], own_N[:, None], tokens_NT),
        np.where(chosen_N, longest, completions.lengths_N),
        completions.log_probs_N,
        completions.ended_N,
    )


@dataclass(frozen=True)
class Sample:
    """Completions of one prompt, which tell what others of it will be like.

    Attributes:
        met: The completions that were met, n of them.
    """

    met: Completions

    @cached_property
    def _place_N(self) -> NDArray[np.int64]:
        return self.met.distinct()[1]

    @cached_property
    def _counts_D(self) -> NDArray[np.int64]:
        return np.bincount(self._place_N)

    @cached_property
    def _beginnings(self) -> list[NDArray[np.int64]]:
        return beginnings(self.met)

    @cached_property
    def all_longest(self) -> "Sample":
        """The same, had each distinct one run to the length of the longest place."""
        every = np.ones(len(self.met), dtype=bool)
        longest = self.met.tokens_NT.shape[1]
        return Sample(lengthened(self.met, longest, every, self._place_N))

    def distinct(self, k: int) -> float:
        """How many of k completions are distinct, as expected."""
        return expected_distinct(self._counts_D, len(self.met), k)

    @property
    def repeats(self) -> bool:
        """Whether some of them occur several times, more than a few."""
        return len(self._counts_D) < DISTINCT * len(self.met)

    def batch(self, k: int) -> Batch:
        """What k completions that are drawn at once are expected to take."""
        n = len(self.met)
        rows = sum(expected_distinct(counts, n, k) for counts in self._beginnings)
        longer_T = np.array([counts.sum() for counts in self._beginnings])
        return Batch(k, rows, expected_distinct(longer_T, n, min(k, n)))

    def lengths(self, k: int, rng: np.random.Generator) -> Lengths:
        """Draw the lengths of the distinct ones of k completions, in order of occurrence.

        Among more than were met are all of these, and new ones like those met once.
        """
        first_D = np.unique(self._place_N, return_index=True)[1]
        lengths_D = self.met.lengths_N[first_D]
        if k <= len(self.met):
            chosen = rng.choice(self._place_N, size=k, replace=False)
            return lengths_D[list(dict.fromkeys(chosen.tolist()))]
        once = lengths_D[self._counts_D == 1]
        more = max(round(self.distinct(k)) - len(lengths_D), 0)
        added = rng.choice(once if len(once) else lengths_D, size=more)
        return rng.permutation(np.concatenate([lengths_D, added]))
