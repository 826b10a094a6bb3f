"""A reward less a baseline: of the prompt, of the group's mean, or b* plugged in.

A baseline b(x) that does not look at the group leaves the estimate unbiased, with the MSE
(E[(Z - b)^2 ||W||^2] - ||g||^2) / G, least at b* = E[Z ||W||^2] / E||W||^2 (Greensmith,
Bartlett and Baxter 2004; Weaver and Tao 2001). So does one from the group that leaves
completion i out. `grpo` and `centred` differ by the factor (G-1)/G, and by nothing else.
In a plugged-in b* ||W||^2 is measured (`best-constant-loo`), or the length stands for it.
"""

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.estimators.groups import Groups, deviations


def vanilla(groups: Groups) -> Floats:
    """REINFORCE without a baseline, w_i = Z_i.

    Unbiased. A group without reward has weight zero; a group with equal rewards keeps
    them. Table 1 of arXiv 2603.01162.
    """
    return groups.rewards_PRG


def oracle(groups: Groups) -> Floats:
    """The baseline that knows the value: w_i = Z_i - V(x).

    Unbiased, for V of completions drawn apart from the group, as here. Not the least MSE
    among constants unless ||W||^2 and Z are uncorrelated given the prompt. A group of
    equal rewards keeps a weight unless they are V. Table 1 of arXiv 2603.01162.
    """
    return groups.rewards_PRG - groups.value_P[:, None, None]


def best_constant(groups: Groups) -> Floats:
    """The constant baseline of least MSE: w_i = Z_i - b*, b* = E[Z ||W||^2] / E||W||^2.

    Unbiased: b* comes from the other groups of the prompt. What learning it adds to the
    MSE is taken off the errors (`replicates.py`). A group of equal rewards keeps a weight
    unless they are b*.
    Greensmith, Bartlett and Baxter 2004.
    """
    return groups.rewards_PRG - groups.best_constant_PR[:, :, None]


def grpo(groups: Groups) -> Floats:
    """GRPO-type, also RLOO: w_i = Z_i - mean_{j != i} Z_j = G/(G-1) (Z_i - Zbar).

    Unbiased, needs G >= 2; a group of equal rewards has weight zero. Exactly the
    second-order U-statistic with kernel (W_i - W_j)(Z_i - Z_j) / 2.
    arXiv 2603.01162, equation 4 and Lemma 1; arXiv 2402.14740.

    With rewards [1, 0, 0, 0] the weights are 1, -1/3, -1/3, -1/3.
    """
    size = groups.rewards_PRG.shape[-1]
    return size / (size - 1) * deviations(groups.rewards_PRG)


def centred(groups: Groups) -> Floats:
    """Dr. GRPO: w_i = Z_i - Zbar, the group's own mean as the baseline.

    Biased: its mean is (G-1)/G times the gradient, exactly, for the completion's own
    reward is in its baseline. A group of equal rewards has weight zero. arXiv 2503.20783.

    With rewards [1, 0, 0, 0] the weights are 3/4, -1/4, -1/4, -1/4.
    """
    return deviations(groups.rewards_PRG)


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
