"""Values of prompts: how they are spread, how they drift, and what other groups would show.

The value of a prompt is the mean reward of its completions under the policy; a log gives
the mean rewards of a few.
"""

import math
from itertools import pairwise

import numpy as np
import pandas as pd

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.logs.reward_groups import RewardGroups
from mse_lab.mse.cluster_means import cluster_change, cluster_mean, cluster_share
from mse_lab.mse.intervals import UNKNOWN, Estimate

# Upper ends of the bands of values between never and always right.
BANDS = (0.25, 0.5, 0.75, 1.0)

# With fewer steps no drift is computed.
FEWEST_STEPS = 4

# Group sizes of the forecast, beside that of the log.
FORECAST_SIZES = (2, 4, 8, 16, 32, 64)

# The seed of the draws of intervals: a log has the same summary every time.
SEED = 0


def mean_share(shares: Floats | Flags, prompts: Ints, level: float) -> Estimate:
    """Average shares, NaN left out, of these prompts; the interval is over prompts."""
    known = ~np.isnan(shares)
    rng = np.random.default_rng(SEED)
    return cluster_share(shares[known].astype(float), prompts[known], level, rng)


def mean_where(
    groups: RewardGroups, flags_N: Flags, level: float, values_N: Floats | None = None
) -> Estimate:
    """Average a number of some completions, by default the reward, over prompts.

    Rewards from 0 to 1 as shares: their interval has a width where all are wrong.
    """
    if not flags_N.any():
        return UNKNOWN
    reward_N, prompt_N = (groups.completions[name] for name in ("reward", "prompt"))
    shares = values_N is None and groups.range[0] >= 0 and groups.range[1] <= 1
    average = mean_share if shares else cluster_mean
    given_N = reward_N.to_numpy() if values_N is None else values_N
    return average(given_N[flags_N], prompt_N.to_numpy()[flags_N], level)


def forecast(groups: RewardGroups, level: float) -> dict[int, Estimate]:
    """Forecast the share of zero-variance groups, from the same draws at every size.

    Up to the n completions of the log's groups it needs no model and has no bias: the share
    of a group's subsets of G whose rewards are all equal, averaged over groups. Above n it
    would rest on a law of the prompts' values, which n completions of each do not tell.
    """
    largest, prompt_K = groups.commonest_size, groups.groups["prompt"].to_numpy()
    sizes = sorted({*FORECAST_SIZES, largest, groups.size_in_use})
    return {
        size: mean_share(groups.zero_variance_shares(size), prompt_K, level)
        for size in sizes
        if 2 <= size <= largest
    }


def prompts_table(groups: RewardGroups) -> pd.DataFrame:
    """Describe each prompt: its completions, value, and share of zero-variance groups."""
    of_groups = groups.groups.groupby("prompt")
    by_prompt = groups.completions.groupby("prompt")
    columns = {
        "prompt": groups.prompts,
        "groups": of_groups.size(),
        "completions": by_prompt.size(),
        "value": by_prompt["reward"].mean(),
        "right": by_prompt["right"].mean(),
        "wrong": by_prompt["wrong"].mean(),
        "zero_variance": of_groups["zero_variance"].mean(),
        "mean_length": by_prompt["length"].mean() if "length" in by_prompt.obj else np.nan,
    }
    return pd.DataFrame(columns).reset_index(drop=True)


def steps_table(groups: RewardGroups) -> pd.DataFrame:
    """Describe each step: its groups, mean reward, and share of zero-variance groups."""
    by_step = groups.groups[groups.groups["step"] >= 0].groupby("step")
    means = {name: (name, "mean") for name in ("mean", "zero_variance")}
    table = by_step.agg(**means, groups=("size", "count"))
    return table.rename(columns={"mean": "mean_reward"}).reset_index()


def bands_of(groups: RewardGroups, prompts: pd.DataFrame) -> dict[str, int]:
    """Count prompts by their value, from the smallest to the largest reward."""
    least, most = groups.range
    never, always = prompts["wrong"] == 1, prompts["right"] == 1
    value = (prompts["value"] - least) / ((most - least) or 1.0)
    edges = (0.0, *BANDS)
    names = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    counts = np.histogram(value[~never & ~always], edges)[0].tolist()
    within = dict(zip(names, counts, strict=True))
    return {"never right": int(never.sum()), **within, "always right": int(always.sum())}


def _skewed(variance: Estimate) -> Estimate:
    """Lengthen the upper half of a variance's interval to that of its logarithm.

    A few prompts may carry a variance: its estimate is skewed, and most often too small.
    Where the half is longer than twice the estimate, it is left as it is.
    """
    value, low, high = variance
    reach = (high - value) / value if value > 0 else math.inf
    return Estimate(value, low, value * math.exp(reach)) if reach < 2 else variance


def is_significant(drift: Estimate) -> bool:
    """Whether the interval of a drift is known and excludes none."""
    return drift.low > 0 or drift.high < 0


def _apart(groups: pd.DataFrame) -> Floats:
    """Give each group's share in the variance of values, by `spread_of_values`, (K,)."""
    mean_K, count = groups["mean"].to_numpy(), len(groups)
    luck_K = groups["variance"].to_numpy() / groups["size"].to_numpy()
    same = float(np.square(groups["prompt"].value_counts().to_numpy() / count).sum())
    return (np.square(mean_K - mean_K.mean()) - (1 - 1 / count) * luck_K) / (1 - same)


def spread_of_values(groups: RewardGroups, level: float, drift: Estimate) -> Estimate:
    """Estimate the standard deviation of prompts' values: what luck leaves of it.

    With m the mean and s^2 the variance of the n rewards of one of K groups, M the mean of
    all m, and k_p groups of prompt p, of prompts drawn at random

        E(m - M)^2 = Var(V) (1 - sum_p (k_p/K)^2) + (1 - 1/K) E s^2/n,

    since M moves with the prompts, not with their groups. So the variance of values is
    without bias, also where the same few prompts are drawn again and again. Of one prompt
    it is not known. Where the values drift along the steps, K, M and k_p are those of a
    group's step, and so is the spread: that of the values under one policy.
    """
    several = groups.groups[groups.groups["size"] > 1]
    by_step = several.groupby("step") if is_significant(drift) else [(0, several)]
    parts = [part for _, part in by_step if part["prompt"].nunique() > 1]
    if not parts:
        return UNKNOWN
    apart_K = np.concatenate([*map(_apart, parts)])
    prompt_K = np.concatenate([part["prompt"].to_numpy() for part in parts])
    variance = _skewed(cluster_mean(apart_K, prompt_K, level))
    return Estimate(*(math.sqrt(max(end, 0.0)) if end == end else end for end in variance))


def drift_of_values(groups: RewardGroups, level: float) -> Estimate:
    """Estimate how much the mean reward of the last third of steps exceeds the first's.

    NaN where there are fewer than four steps, or the interval excludes no change that the
    range of rewards allows.
    """
    known = groups.groups[groups.groups["step"] >= 0]
    steps = np.unique(known["step"])
    if len(steps) < FEWEST_STEPS:
        return UNKNOWN
    third = len(steps) // 3
    last = known["step"] >= steps[-third]
    either = (known["step"] <= steps[third - 1]) | last
    mean_K, prompt_K = (known.loc[either, name].to_numpy() for name in ("mean", "prompt"))
    drift = cluster_change(mean_K, last[either].to_numpy(), prompt_K, level)
    least, most = groups.range
    vague = drift.high - drift.low > 2 * (most - least) > 0
    return UNKNOWN if vague else drift
