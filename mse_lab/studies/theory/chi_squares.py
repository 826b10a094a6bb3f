"""Weighted sums of independent chi-squares: the exact distribution of sum_k w_k chi2_1.

With b the least of r weights, the sum is a mixture of scaled chi-squares (Ruben 1962,
Ann. Math. Statist. 33:542),

    P(sum <= q) = sum_j a_j P(chi2_{r+2j} <= q/b),
    a_0 = prod_k sqrt(b/w_k),   a_j = (1/(2j)) sum_{i<j} a_i sum_k (1 - b/w_k)^{j-i}.

All a_j are positive and sum to one, so what is left out is at most what they lack of it.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from mse_lab.arrays import Floats

# Share of the mixture that may be left out, and terms that it may take.
LEFT_OUT, MOST_TERMS = 1e-12, 4000


def _mixture(weights: Floats) -> Floats:
    """The a_j, until they sum to one."""
    rest = 1 - weights.min() / weights
    powers = (rest ** np.arange(MOST_TERMS)[:, None]).sum(-1)
    shares, total = np.zeros(MOST_TERMS), 0.0
    shares[0] = np.sqrt(1 - rest).prod()
    for j in range(1, MOST_TERMS):
        total += shares[j - 1]
        if 1 - total < LEFT_OUT:
            return shares[:j]
        shares[j] = shares[:j] @ powers[j:0:-1] / (2 * j)
    raise ValueError(f"weights {weights} are too far apart for {MOST_TERMS} terms")


def cdf(points: ArrayLike, weights: Floats) -> Floats:
    """P(sum_k w_k chi2_1 <= q) for each point q; weights above zero.

    >>> round(float(cdf(2 * 1.3862943611198906, np.array([2.0, 2.0]))), 12)
    0.5
    """
    shares = _mixture(weights)
    degrees = len(weights) + 2 * np.arange(len(shares))
    scaled = np.asarray(points, dtype=float)[..., None] / weights.min()
    return np.asarray(stats.chi2.cdf(scaled, degrees) @ shares)
