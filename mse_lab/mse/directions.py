"""Directions: where an estimator points over random prompts, and what that costs.

For an estimator whose mean is h(x) = slope(x) g(x), which for rewards 0 and 1 is any whose
weights depend on a group's rewards alone, with hbar = E h(X) and of one group

    E||g_hat||^2 = ||hbar||^2 + (between + within) / B,
    between = E||h(X) - hbar||^2,  within = E[tr Var(g_hat | X)].

A factor of g_hat is a matter of the learning rate, so what counts is the scale-free MSE,
min_a E||a g_hat - g||^2 = ||g||^2 - <hbar, g>^2 / E||g_hat||^2. The squared cosine of hbar
with g is a ratio of estimates. Where slopes differ it is too large by order 1/P, which may
exceed the whole relative MSE; the jackknife subtracts this bias.
"""

from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.mse.budget import Population
from mse_lab.mse.prompt_samples import raise_to_zero


class Direction(NamedTuple):
    """Where an estimator points over random prompts; arrays over samples of prompts."""

    mean_norm2: Floats  # ||hbar||^2.
    cosine2: Floats  # Squared cosine of hbar with E g(X).
    # E||h(X) - hbar||^2, what only more prompts reduce; raised to zero as
    # `Constants.nonnegative_c1`.
    between: Floats
    within: Floats  # E[tr Var(g_hat | X)] of one group.

    @property
    def noise(self) -> Floats:
        """B times the variance of a batch of B groups."""
        return self.between + self.within


def find_direction(population: Population, slope_P: Floats, within_P: Floats) -> Direction:
    """Estimate where an estimator points, by its slope and noise on each prompt, (S,)."""
    samples, ones = population.prompt_samples, np.ones_like(slope_P)
    own_P = population.gradient2_P
    mean_norm2 = population.mean_products(slope_P, slope_P)
    inner = population.mean_products(slope_P, ones)
    norms2 = mean_norm2 * population.mean_products(ones, ones)
    return Direction(
        mean_norm2=mean_norm2,
        cosine2=samples.without_bias(divide(inner**2, norms2)),
        between=raise_to_zero(samples.means(slope_P**2 * own_P) - mean_norm2),
        within=samples.means(within_P),
    )
