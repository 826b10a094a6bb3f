"""Zero-variance groups: how often all rewards of a group are equal.

If a prompt's completions have reward z with probability p_z, its share of such groups is
sum_z p_z^G, for rewards 0 and 1 p^G + (1-p)^G. The interval of their mean over random
prompts is that of `cluster_means.cluster_share`.

n completions of a prompt give the share up to G = n. Beyond it a law of V would have to be
assumed, and two that agree on groups of n may differ at larger G, so nothing is said.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Floats


def zero_variance_shares(rewards: Iterable[Floats], group_size: int) -> Floats:
    """Estimate the probability that a group's rewards are all equal, by prompt (P,).

    The share of all groups of G among a prompt's n >= G completions, sum_z C(n_z, G) /
    C(n, G) with n_z completions of reward z. It is unbiased; for rewards 0 and 1 its
    expectation is p^G + (1-p)^G.

    >>> zero_variance_shares(np.array([[1.0, 1.0, 0.0]]), 2)  # 1 pair of 3
    array([0.33333333])
    """
    counts = (np.unique(rewards_N, return_counts=True)[1] for rewards_N in rewards)
    return np.array([equal_share(each, each.sum(), group_size).sum() for each in counts])


def equal_share(counts: NDArray[Any], sizes: NDArray[Any], group_size: int) -> Floats:
    """Share of all groups of G of `sizes` completions that are among `counts` of these.

    C(count, G) / C(size, G), as a product whose factors are at most one, for sizes of at
    least G.

    >>> equal_share(np.array([2.0, 3.0]), np.array([3.0]), 2)
    array([0.33333333, 1.        ])
    """
    share = np.ones(np.broadcast(counts, sizes).shape)
    for drawn in range(group_size):
        share = share * np.maximum(counts - drawn, 0.0) / (sizes - drawn)
    return share
