"""Which numbers of a log are rewards: a reward function may log others beside them.

TRL's state names the reward functions. Without it the trainer's advantages tell: they are
a positive multiple of the centred rewards of a group, whatever the trainer divides by, and
the columns of the reward functions stand first. TRL writes rewards as floats; whole numbers
count only where the floats alone do not fit.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from mse_lab.arrays import Floats, Ints
from mse_lab.trainer_logs.collect import Columns


def total_rewards(rewards: Mapping[str, Floats]) -> Floats:
    """Sum rewards over reward functions; NaN where none gave one.

    Sums are rounded to seven decimals: 0.1 + 0.2 and 0.3 are the same reward.
    """
    table = np.stack(list(rewards.values()))
    total = np.nansum(table, axis=0).round(7) if len(table) > 1 else table[0]
    return np.where(np.isnan(table).all(axis=0), np.nan, total)


def centre(values_N: Floats, group_N: Ints) -> Floats:
    """Subtract the mean of its group from each value."""
    means_K = np.bincount(group_N, weights=values_N) / np.maximum(np.bincount(group_N), 1)
    return np.asarray(values_N - means_K[group_N])


def advantages_follow(rewards_N: Floats, given_N: Floats, group_N: Ints) -> bool | None:
    """Whether advantages follow the rewards in nearly every group in which these vary.

    None where the log has no advantages, or no reward varies.
    """
    if np.isnan(given_N).any() or np.isnan(rewards_N).any():
        return None
    rewards_N, given_N = centre(rewards_N, group_N), centre(given_N, group_N)
    products, squares, given2 = (
        np.bincount(group_N, weights=terms_N)
        for terms_N in (rewards_N * given_N, rewards_N**2, given_N**2)
    )
    varying_K = (squares > 1e-12) & (given2 > 0)
    if not varying_K.any():
        return None
    correlation = products[varying_K] / np.sqrt(squares[varying_K] * given2[varying_K])
    return bool((correlation > 0.99).mean() > 0.99)


def reward_names(columns: Columns, group_N: Ints, functions: Sequence[str]) -> list[str]:
    """Choose the columns that are rewards; `functions` are their names, if they are known.

    The advantages take the longest row of columns, from the first, whose sum they follow.
    """
    names = [*columns.rewards]
    if functions and {*functions} <= {*names}:
        return [*functions]
    floats = [name for name in names if name not in columns.whole]
    if len(names) > 1 or not floats:
        for candidates in (floats, names):
            for count in range(len(candidates), 0, -1):
                chosen = candidates[:count]
                total_N = total_rewards({name: columns.rewards[name] for name in chosen})
                scored_N = ~np.isnan(total_N)
                if advantages_follow(
                    total_N[scored_N], columns.advantage_N[scored_N], group_N[scored_N]
                ):
                    return chosen
    return floats or names
