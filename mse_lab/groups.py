"""Groups: the pools of P prompts, cut into disjoint groups of one size.

Blocks of the largest group size are cut into groups of a smaller one, so all group sizes
share their completions and small groups come in larger numbers for nothing.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mse_lab.pools import Floats, Pools


@dataclass(frozen=True)
class Groups:
    """What an estimator may look at: R groups of G completions for each of P prompts.

    Replicate r of one prompt and replicate r of another form one batch.

    Attributes:
        rewards_PRG: Rewards.
        lengths_PRG: Tokens, end token included.
        norms2_PRG: Squared score norms ||W_i||^2.
        value_P: V of each prompt, which only an oracle knows.
        best_constant_PR: E[Z ||W||^2] / E||W||^2 of each prompt, from the other blocks of
            its pool.
    """

    rewards_PRG: Floats
    lengths_PRG: NDArray[np.int64]
    norms2_PRG: Floats
    value_P: Floats
    best_constant_PR: Floats


def _from_other_blocks(values_PK: Floats) -> Floats:
    return values_PK.sum(-1, keepdims=True) - values_PK


def _best_constant(pools: Pools) -> Floats:
    """b* of each block from all others, (P, K)."""
    norms2 = pools.norms2_PN
    numerator = _from_other_blocks(pools.in_blocks(pools.rewards_PN * norms2).sum(-1))
    denominator = _from_other_blocks(pools.in_blocks(norms2).sum(-1))
    # A prompt whose scores are all zero has no noise; any baseline will do.
    return np.divide(
        numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0
    )


def less_best_constant(pools: Pools) -> Pools:
    """Subtract b* from the replicates' rewards: the law of vanilla becomes that of b*.

    b* is learnt from the other blocks of the prompt, so that no completion is in its own
    baseline. Only what follows from the score norms has a meaning in the result, and of
    that only what concerns vanilla.
    """
    rewards = pools.in_blocks(pools.rewards_PN) - _best_constant(pools)[..., None]
    return replace(pools, rewards_PN=rewards.reshape(pools.rewards_PN.shape))


def form_groups(pools: Pools, group_size: int) -> Groups:
    """Cut the pools into disjoint groups.

    Args:
        pools: The pools.
        group_size: G; it divides the largest.

    Returns:
        Groups with R = N / G replicates a prompt, in the order of the completions.
    """
    shape = (pools.prompts, -1, group_size)
    groups_a_block = pools.largest_group // group_size
    return Groups(
        rewards_PRG=pools.rewards_PN.reshape(shape),
        lengths_PRG=pools.lengths_PN.reshape(shape),
        norms2_PRG=pools.norms2_PN.reshape(shape),
        value_P=pools.value_P,
        best_constant_PR=np.repeat(_best_constant(pools), groups_a_block, axis=1),
    )


def group_grams(pools: Pools, group_size: int) -> Floats:
    """Cut the Gram blocks into those of the groups, (P, R, G, G)."""
    prompts, blocks, largest, _ = pools.gram_PKGG.shape
    parts = largest // group_size
    split = pools.gram_PKGG.reshape(prompts, blocks, parts, group_size, parts, group_size)
    return np.einsum("pkagah->pkagh", split).reshape(prompts, -1, group_size, group_size)
