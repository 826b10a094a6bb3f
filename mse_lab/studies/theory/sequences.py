"""Policies of several tokens that can be enumerated: prefixes that choose the next token.

What stands before token t of a completion y is a prompt of a `Bandit`, so

    pi(y) = prod_t pi(y_t | y_<t),   W = sum_t W_t,   W_t = f(y_<t, y_t) - E f(y_<t, .).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Floats
from mse_lab.probe.streams import stream
from mse_lab.studies.theory.bandit import Bandit


@dataclass(frozen=True)
class Sequences:
    """N completions of T tokens, and the policy that writes them.

    Attributes:
        tokens: Chooses a token after each prefix; its own rewards count for nothing.
        prefixes_NT: Which prefix stands before each token.
        choices_NT: Which token it is.
        rewards_N: Z.
    """

    tokens: Bandit
    prefixes_NT: NDArray[np.intp]
    choices_NT: NDArray[np.intp]
    rewards_N: Floats

    @property
    def start_DR(self) -> Floats:
        """Parameters of zero, (D, 1)."""
        return np.zeros((self.tokens.features_PKD.shape[-1], 1))

    def at(self, theta_DR: Floats) -> Written:
        """Enumerate the completions at the parameters of R runs."""
        point, where = self.tokens.at(theta_DR), (self.prefixes_NT, self.choices_NT)
        chances_NTR, scores_NTDR = point.probabilities_PK[where], point.scores_PKD[where]
        return Written(self.rewards_N[:, None], chances_NTR, scores_NTDR)


@dataclass(frozen=True)
class Written:
    """Every completion at the parameters of R runs.

    Attributes:
        rewards_N1: Z, (N, 1).
        chances_NTR: pi(y_t | y_<t).
        scores_NTDR: W_t.
    """

    rewards_N1: Floats
    chances_NTR: Floats
    scores_NTDR: Floats

    @cached_property
    def probabilities_NR(self) -> Floats:
        """pi(y)."""
        return self.chances_NTR.prod(1)

    @property
    def value_R(self) -> Floats:
        """V."""
        return (self.probabilities_NR * self.rewards_N1).sum(0)

    @property
    def sd_R(self) -> Floats:
        """sd(Z), of rewards 0 and 1."""
        return np.sqrt(self.value_R * (1 - self.value_R))

    def mean(self, drawn_NR: Floats, weights_NTR: Floats) -> Floats:
        """E[sum_t w_t W_t], (D, R).

        Args:
            drawn_NR: How likely each completion is to be drawn, (N, R) or (N, 1).
            weights_NTR: w_t; (N, 1, R) where all tokens of a completion have the same.
        """
        weighted_NTR = drawn_NR[:, None] * weights_NTR
        return np.asarray((weighted_NTR[:, :, None] * self.scores_NTDR).sum((0, 1)))

    @cached_property
    def gradient_DR(self) -> Floats:
        """G = E[Z W]."""
        return self.mean(self.probabilities_NR, self.rewards_N1[:, None])


def counted(kinds: int, length: int, wide: int) -> Sequences:
    """Completions that are right where their tokens add up to 1, modulo the kinds.

    So no token is right by itself. Features are random, and always the same; at parameters
    of zero every token is as likely as any other.

    Args:
        kinds: K, of tokens.
        length: T.
        wide: D.
    """
    prefixes = [one for t in range(length) for one in product(range(kinds), repeat=t)]
    choices_NT = np.array(list(product(range(kinds), repeat=length)))
    before = [[prefixes.index(tuple(y[:t])) for t in range(length)] for y in choices_NT]
    features = stream(0, "theory", "counted").standard_normal((len(prefixes), kinds, wide))
    nothing = np.zeros(features.shape[:2])
    right_N = (choices_NT.sum(1) % kinds == 1).astype(float)
    tokens = Bandit(features, nothing, nothing)
    return Sequences(tokens, np.array(before), choices_NT, right_N)
