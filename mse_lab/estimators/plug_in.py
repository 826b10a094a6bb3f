"""The best constant baseline b* = E[Z ||W||^2] / E||W||^2, plugged in from the group.

||W||^2 is measured (`best-constant-loo`), or the length stands for it (`opo`, `opo-loo`).
Leaving i out keeps b_i independent of completion i, hence the estimate unbiased.
"""

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.estimators.groups import Groups


def _from_least(groups: Groups) -> Floats:
    """Rewards less the group's least: the same weights, exact zeros where all are equal."""
    rewards = groups.rewards_PRG
    return rewards - rewards.min(-1, keepdims=True)


def _mean_of_others(rewards_PRG: Floats, by_PRG: Floats) -> Floats:
    """sum_{j != i} by_j Z_j / sum_{j != i} by_j; the plain mean where all by_j are 0."""
    # Summed without i rather than subtracted, so that nothing of i is left by rounding.
    others_GG = 1.0 - np.eye(rewards_PRG.shape[-1])
    total = by_PRG @ others_GG
    plain = rewards_PRG @ others_GG / (rewards_PRG.shape[-1] - 1)
    return divide((by_PRG * rewards_PRG) @ others_GG, total, otherwise=plain)


def best_constant_loo(groups: Groups) -> Floats:
    """Plug-in of b* from the others: w_i = Z_i - sum_{j!=i} K_jj Z_j / sum_{j!=i} K_jj.

    Unbiased, needs G >= 2. Where the others' scores are all zero the plain mean of their
    rewards takes its place; a group of equal rewards has weight zero. K_jj = ||W_j||^2.
    After Greensmith, Bartlett and Baxter 2004.

    With rewards [1, 0, 0, 0] and K = 1, 2, 3, 4 the weights are 1, -1/8, -1/7, -1/6.
    """
    rewards = _from_least(groups)
    return rewards - _mean_of_others(rewards, groups.norms2_PRG)


def opo(groups: Groups) -> Floats:
    """OPO: w_i = Z_i - sum_j l_j Z_j / sum_j l_j, lengths in the place of ||W_j||^2.

    Biased, for the completion itself is in its baseline: exactly by the factor (G-1)/G
    where all lengths are equal, and else not even along the gradient. A group of equal
    rewards has weight zero. arXiv 2505.23585.

    With rewards [1, 0, 0, 0] and lengths 1, 2, 3, 4 the weights are 9/10 and -1/10 thrice.
    """
    rewards = _from_least(groups)
    lengths = groups.lengths_PRG.astype(np.float64)
    baseline = (lengths * rewards).sum(-1, keepdims=True) / lengths.sum(-1, keepdims=True)
    return rewards - baseline


def opo_loo(groups: Groups) -> Floats:
    """OPO from the others: w_i = Z_i - sum_{j != i} l_j Z_j / sum_{j != i} l_j.

    Unbiased, needs G >= 2; a group of equal rewards has weight zero.
    After arXiv 2505.23585.

    With rewards [1, 0, 0, 0] and lengths 1, 2, 3, 4 the weights are 1, -1/8, -1/7, -1/6.
    """
    rewards = _from_least(groups)
    return rewards - _mean_of_others(rewards, groups.lengths_PRG.astype(np.float64))
