"""Values of prompts: their distribution, their spread beyond that of luck, their drift.

The value of a prompt is the mean reward of its completions under the policy; a log gives
the mean rewards of a few.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from mse_lab.arrays import Floats
from mse_lab.mse.cluster_means import cluster_change, cluster_mean
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.trainer_logs.groups import Groups

# Upper ends of the bands of values between never and always right.
BANDS = (0.25, 0.5, 0.75, 1.0)

# With fewer steps no drift is computed.
FEWEST_STEPS = 4


class Spread(NamedTuple):
    """How far the values of groups lie apart, as standard deviations."""

    seen: float  # That of the groups' mean rewards.
    luck: float  # That of a mean reward about its prompt's value.
    between: Estimate  # That of the values themselves: what luck leaves of it.


def prompts_table(groups: Groups) -> pd.DataFrame:
    """Describe each prompt: its completions, value, and share of zero-variance groups."""
    prompt_K, prompt_N = groups.prompt_K, groups.prompt_N
    counts = np.bincount(prompt_N)
    labels = np.unique(groups.columns.prompt_N)

    def share(values: Floats) -> Floats:
        return np.bincount(prompt_N, weights=values) / counts

    zero = np.bincount(prompt_K, weights=groups.zero_variance_K) / np.bincount(prompt_K)
    lengths = groups.columns.length_N.astype(float)
    lengths[lengths < 0] = np.nan
    return pd.DataFrame(
        {
            "prompt": [groups.columns.prompts[label] for label in labels],
            "groups": np.bincount(prompt_K),
            "completions": counts,
            "value": share(groups.reward_N),
            "right": share(groups.right_N.astype(float)),
            "wrong": share(groups.wrong_N.astype(float)),
            "zero_variance": zero,
            "mean_length": share(lengths),
        }
    )


def bands_of(groups: Groups, prompts: pd.DataFrame) -> dict[str, int]:
    """Count prompts by their value, from the smallest to the largest reward."""
    least, most = groups.range
    never, always = prompts["wrong"] == 1, prompts["right"] == 1
    value = (prompts["value"] - least) / ((most - least) or 1.0)
    middle = value[~never & ~always]
    edges = (0.0, *BANDS)
    names = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    within = dict(zip(names, np.histogram(middle, edges)[0].tolist(), strict=True))
    return {"never right": int(never.sum()), **within, "always right": int(always.sum())}


def _skewed(variance: Estimate) -> Estimate:
    """Lengthen the upper half of a variance's interval to that of its logarithm.

    A few prompts may carry a variance: its estimate is skewed, and most often too small.
    Where the half is longer than twice the estimate, it is left as it is.
    """
    value, low, high = variance
    reach = (high - value) / value if value > 0 else math.inf
    return Estimate(value, low, value * math.exp(reach)) if reach < 2 else variance


def spread_of_values(groups: Groups, level: float) -> Spread:
    """Split the variance of groups' mean rewards into that of luck and that of values.

    With m the mean and s^2 the variance of a group's n rewards, and M the mean of all m,
    E(m - M)^2 = Var(V) + E s^2/n: the difference of the two is unbiased for the variance
    of values over groups.
    """
    several_K = groups.size_K > 1
    count = several_K.sum()
    mean_K, prompt_K = groups.mean_K[several_K], groups.prompt_K[several_K]
    if count < 2:
        return Spread(math.nan, math.nan, UNKNOWN)
    luck_K = groups.variance_K[several_K] / groups.size_K[several_K]
    seen_K = np.square(mean_K - mean_K.mean()) * count / (count - 1)
    variance = _skewed(cluster_mean(seen_K - luck_K, prompt_K, level))
    ends = (math.sqrt(max(end, 0.0)) if end == end else end for end in variance)
    return Spread(math.sqrt(seen_K.mean()), math.sqrt(luck_K.mean()), Estimate(*ends))


def drift_of_values(groups: Groups, level: float) -> Estimate:
    """Estimate how much the mean reward of the last third of steps exceeds the first's.

    NaN where there are fewer than four steps, or the interval excludes no change that the
    range of rewards allows.
    """
    steps = np.unique(groups.step_K[groups.step_K >= 0])
    if len(steps) < FEWEST_STEPS:
        return UNKNOWN
    third = len(steps) // 3
    first, last = groups.step_K <= steps[third - 1], groups.step_K >= steps[-third]
    either = (first & (groups.step_K >= 0)) | last
    prompt_K = groups.prompt_K[either]
    drift = cluster_change(groups.mean_K[either], last[either], prompt_K, level)
    least, most = groups.range
    vague = drift.high - drift.low > 2 * (most - least) > 0
    return UNKNOWN if vague else drift


def steps_table(groups: Groups) -> pd.DataFrame:
    """Describe each step: its groups, mean reward, and share of zero-variance groups."""
    known = groups.step_K >= 0
    frame = pd.DataFrame(
        {
            "step": groups.step_K[known],
            "mean_reward": groups.mean_K[known],
            "zero_variance": groups.zero_variance_K[known].astype(float),
        }
    )
    grouped = frame.groupby("step")
    return grouped.mean().assign(groups=grouped.size()).reset_index()
