"""What is computed of a log's groups: values, drift.

The value of a prompt is the mean reward of its completions under the policy; a log gives
the mean rewards of a few.
"""

import math
from itertools import pairwise

import numpy as np
import pandas as pd

from mse_lab.arrays import Floats
from mse_lab.logs.groups import RewardGroups
from mse_lab.mse.cluster_means import cluster_change, cluster_mean
from mse_lab.mse.intervals import UNKNOWN, Estimate

# Upper ends of the bands of values between never and always right.
BANDS = (0.25, 0.5, 0.75, 1.0)

# With fewer steps no drift is computed.
FEWEST_STEPS = 4


def tabulate_prompts(groups: RewardGroups) -> pd.DataFrame:
    """Describe each prompt: its completions, value, and share of zero-variance groups."""
    prompt_K, prompt_N = groups.prompt_K, groups.prompt_N
    counts = np.bincount(prompt_N)
    labels = np.unique(groups.completions["prompt"])
    lengths = groups.completions.get("length", pd.Series(np.nan, groups.completions.index))

    def share(values: Floats) -> Floats:
        return np.bincount(prompt_N, weights=values) / counts

    zero = np.bincount(prompt_K, weights=groups.zero_variance_K) / np.bincount(prompt_K)
    return pd.DataFrame(
        {
            "prompt": [groups.prompts[label] for label in labels],
            "groups": np.bincount(prompt_K),
            "completions": counts,
            "value": share(groups.reward_N),
            "right": share(groups.right_N.astype(float)),
            "wrong": share(groups.wrong_N.astype(float)),
            "zero_variance": zero,
            "mean_length": share(lengths.to_numpy(dtype=float)),
        }
    )


def bands_of(groups: RewardGroups, prompts: pd.DataFrame) -> dict[str, int]:
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


def spread_of_values(groups: RewardGroups, level: float) -> Estimate:
    """Estimate the standard deviation of prompts' values: what luck leaves of it.

    With m the mean and s^2 the variance of the n rewards of one of K groups, M the mean of
    all m, and k_p groups of prompt p, of prompts drawn at random

        E(m - M)^2 = Var(V) (1 - sum_p (k_p/K)^2) + (1 - 1/K) E s^2/n,

    since M moves with the prompts, not with their groups. So the variance of values is
    without bias, also where the same few prompts are drawn again and again. Of one prompt
    it is not known.
    """
    several_K = groups.size_K > 1
    count = int(several_K.sum())
    mean_K, prompt_K = groups.mean_K[several_K], groups.prompt_K[several_K]
    if len(np.unique(prompt_K)) < 2:
        return UNKNOWN
    luck_K = groups.variance_K[several_K] / groups.size_K[several_K]
    same = float(np.square(np.bincount(prompt_K) / count).sum())
    apart_K = np.square(mean_K - mean_K.mean()) - (1 - 1 / count) * luck_K
    variance = _skewed(cluster_mean(apart_K / (1 - same), prompt_K, level))
    return Estimate(*(math.sqrt(max(end, 0.0)) if end == end else end for end in variance))


def drift_of_values(groups: RewardGroups, level: float) -> Estimate:
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


def steps_table(groups: RewardGroups) -> pd.DataFrame:
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
