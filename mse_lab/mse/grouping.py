"""Grouping: the pools of P prompts, cut into disjoint groups of one size.

Blocks of the largest group size are cut into groups of a smaller one, so all group sizes
share their completions and small groups come in larger numbers for nothing.
"""

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.estimators.groups import Groups
from mse_lab.mse.pools import Pools


def _best_constant(pools: Pools, group_size: int) -> Floats:
    """b* of each group from all other groups of its prompt, (P, R); 0 without noise."""
    shape = (pools.prompts, -1, group_size)
    norms2 = pools.norms2_PN.reshape(shape).sum(-1)
    weighted = (pools.rewards_PN * pools.norms2_PN).reshape(shape).sum(-1)
    numerator, denominator = (
        whole.sum(-1, keepdims=True) - whole for whole in (weighted, norms2)
    )
    return divide(numerator, denominator)


def form_groups(pools: Pools, group_size: int) -> Groups:
    """Cut the pools into R = N / G disjoint groups a prompt, in the completions' order."""
    shape = (pools.prompts, -1, group_size)
    return Groups(
        rewards_PRG=pools.rewards_PN.reshape(shape),
        lengths_PRG=pools.lengths_PN.reshape(shape),
        norms2_PRG=pools.norms2_PN.reshape(shape),
        value_P=pools.value_P,
        best_constant_PR=_best_constant(pools, group_size),
    )


def group_grams(pools: Pools, group_size: int) -> Floats:
    """Cut the Gram blocks into those of the groups, (P, R, G, G)."""
    prompts, blocks, largest, _ = pools.gram_PKGG.shape
    parts = largest // group_size
    split = pools.gram_PKGG.reshape(prompts, blocks, parts, group_size, parts, group_size)
    return np.einsum("pkagah->pkagh", split).reshape(prompts, -1, group_size, group_size)
