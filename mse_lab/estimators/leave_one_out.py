"""Baselines from the other completions of the group: w_i = Z_i - b(Z_j, j != i)."""

from mse_lab.groups import Groups
from mse_lab.pools import Floats


def grpo(groups: Groups) -> Floats:
    """GRPO-type, also RLOO: w_i = Z_i - mean_{j != i} Z_j = G/(G-1) (Z_i - Zbar).

    Unbiased, needs G >= 2; a group of equal rewards has weight zero. Exactly the
    second-order U-statistic with kernel (W_i - W_j)(Z_i - Z_j) / 2.
    arXiv 2603.01162, equation 4 and Lemma 1; arXiv 2402.14740.

    With rewards [1, 0, 0, 0] the weights are 1, -1/3, -1/3, -1/3.
    """
    rewards = groups.rewards_PRG
    size = rewards.shape[-1]
    return size / (size - 1) * (rewards - rewards.mean(-1, keepdims=True))
