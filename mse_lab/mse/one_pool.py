"""One pool: few completions of a prompt, and no reference.

N completions are drawn, all with a reward Z, and K of them are differentiated: all, or some
of each reward. Given the rewards, completions of one reward are drawn alike, so the score
of one that was not differentiated has the expectation of the others of its reward. With

    w_k = (Z_k - Zbar) / (N-1) n_z / k_z,

n_z completions of reward z = Z_k drawn and k_z of them differentiated, sum_k w_k W_k is the
leave-one-out gradient of all N on average, and so unbiased for g. For rewards 0 and 1 it is
c (N-c) / (N (N-1)) times the difference of the mean scores of right and wrong ones.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Floats, Ints
from mse_lab.estimators.groups import is_binary

# The fewest completions that give products of four different ones, and, of one reward, of
# two.
LEAST_COMPLETIONS, LEAST_OF_A_REWARD = 4, 2


@dataclass(frozen=True)
class PromptSample:
    """Completions of one prompt: one pool, no reference."""

    rewards_N: Floats  # Rewards Z of all N completions drawn.
    scored_K: Ints  # Indices of the K that were differentiated, ascending.
    gram_KK: Floats  # <W_i, W_j> of those, float64.
    # Unbiased for g, by `gradient_weights`: the whole vector, or a sketch.
    gradient_D: NDArray[np.float32]
    lengths_N: Ints  # Tokens of each completion, end token included.
    seconds: float  # What it took, drawing included.

    @property
    def completions(self) -> int:
        """N."""
        return len(self.rewards_N)

    @property
    def differentiated(self) -> int:
        """K."""
        return len(self.scored_K)


def drawn_for_each(rewards_N: Floats, scored_K: Ints) -> Floats:
    """How many drawn completions each differentiated one stands for, n_z / k_z, (K,).

    >>> drawn_for_each(np.array([1.0, 1.0, 0.0, 0.0, 0.0]), np.array([0, 2, 4]))
    array([2. , 1.5, 1.5])
    """
    _, index_N, drawn = np.unique(rewards_N, return_inverse=True, return_counts=True)
    index_K = index_N[scored_K]
    scored = np.bincount(index_K, minlength=len(drawn))
    return np.asarray(drawn[index_K] / scored[index_K], dtype=np.float64)


def gradient_weights(rewards_N: Floats, scored_K: Ints) -> Floats:
    """Compute weights w_K with E sum_k w_k W_k = g; one or more of each reward is scored.

    >>> gradient_weights(np.array([1.0, 0.0, 0.0]), np.arange(3)).round(3)
    array([ 0.333, -0.167, -0.167])
    """
    apart_N = (rewards_N - rewards_N.mean()) / (len(rewards_N) - 1)
    return np.asarray(apart_N[scored_K] * drawn_for_each(rewards_N, scored_K))


def choose_scored(
    rewards_N: Floats, most: tuple[int, int] | None, rng: np.random.Generator
) -> Ints:
    """Choose which completions to differentiate, ascending indices.

    `most` is the number of right and of wrong completions at most, each two or more
    (ValueError), for rewards 0 and 1; None for all. With graded rewards all are chosen. The
    generator chooses among completions of one reward: supplied ones may be ordered.
    """
    if most is None or not is_binary(rewards_N):
        return np.arange(len(rewards_N))
    if min(most) < LEAST_OF_A_REWARD:
        raise ValueError(f"at most {most}: give two or more of each kind")
    right, wrong = (np.flatnonzero(rewards_N == kind) for kind in (1, 0))
    chosen = [
        rng.permutation(kind)[:count]
        for kind, count in zip((right, wrong), most, strict=True)
    ]
    return np.sort(np.concatenate(chosen))
