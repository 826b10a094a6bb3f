"""Several reward functions: which of them never varies, and which drives the total.

A group's gradient depends on its rewards less their mean. So the influence of a reward
function f is its part of the total's variance within groups, Cov(r_f, r) / Var(r); the
parts of all functions add up to one.
"""

from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.errors import one_line
from mse_lab.trainer_logs.groups import Groups


class RewardFunction(NamedTuple):
    """A reward function of a log."""

    name: str  # Its column.
    mean: float  # Its mean reward.
    varies: float  # Share of groups in which it varies.
    share: float  # Its part of the variance of the total within groups.


def _centre(values_N: Floats, groups: Groups) -> Floats:
    """Subtract the mean of its group from each value."""
    return values_N - groups.mean_by_group(values_N)[groups.group_N]


def reward_functions(groups: Groups) -> list[RewardFunction]:
    """Describe each reward function."""
    total_N = _centre(groups.reward_N, groups)
    total = float(total_N @ total_N)
    functions = []
    for name, given_N in groups.columns.rewards.items():
        value_N = np.nan_to_num(given_N)
        centred_N = _centre(value_N, groups)
        varies_K = np.bincount(groups.group_N, weights=np.abs(centred_N)) > 1e-9
        share = float(centred_N @ total_N) / total if total > 0 else float("nan")
        known = given_N[~np.isnan(given_N)]
        mean = float(known.mean()) if len(known) else float("nan")
        functions.append(
            RewardFunction(one_line(name), mean, float(varies_K.mean()), share)
        )
    return functions


def advantage_fits(groups: Groups) -> bool | None:
    """Check that the trainer's advantages follow the rewards in every group.

    Centred advantages are a positive multiple of centred rewards, whatever the trainer
    divides by. None where the log has no advantages, or no reward varies.
    """
    given_N = groups.columns.advantage_N
    varying_N = ~groups.zero_variance_K[groups.group_N]
    if np.isnan(given_N).any() or not varying_N.any():
        return None
    rewards_N, given_N = _centre(groups.reward_N, groups), _centre(given_N, groups)
    products, squares, given2 = (
        np.bincount(groups.group_N, weights=terms_N)
        for terms_N in (rewards_N * given_N, rewards_N**2, given_N**2)
    )
    varying_K = ~groups.zero_variance_K & (given2 > 0)
    if not varying_K.any():
        return None
    correlation = products[varying_K] / np.sqrt(squares[varying_K] * given2[varying_K])
    return bool((correlation > 0.99).mean() > 0.99)
