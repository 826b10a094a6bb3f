"""Several reward functions: which of them never varies, and which drives the total.

A group's gradient depends on its rewards less their mean. So the influence of a reward
function f is its part of the total's variance within groups, Cov(r_f, r) / Var(r); the
parts of all functions add up to one.
"""

from typing import NamedTuple

import numpy as np

from mse_lab.errors import one_line
from mse_lab.trainer_logs.groups import Groups
from mse_lab.trainer_logs.reward_columns import centre


class RewardFunction(NamedTuple):
    """A reward function of a log."""

    name: str  # Its column.
    mean: float  # Its mean reward.
    varies: float  # Share of groups in which it varies.
    share: float  # Its part of the variance of the total within groups.


def reward_functions(groups: Groups) -> list[RewardFunction]:
    """Describe each reward function."""
    total_N = centre(groups.reward_N, groups.group_N)
    total = float(total_N @ total_N)
    functions = []
    for name, given_N in groups.columns.rewards.items():
        centred_N = centre(np.nan_to_num(given_N), groups.group_N)
        varies_K = np.bincount(groups.group_N, weights=np.abs(centred_N)) > 1e-9
        share = float(centred_N @ total_N) / total if total > 0 else float("nan")
        known = given_N[~np.isnan(given_N)]
        mean = float(known.mean()) if len(known) else float("nan")
        functions.append(
            RewardFunction(one_line(name), mean, float(varies_K.mean()), share)
        )
    return functions
