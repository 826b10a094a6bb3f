"""The share of zero-variance groups at other group sizes G.

Up to the n completions of the log's groups it needs no model and has no bias: the share of
a group's subsets of G whose rewards are all equal, averaged over groups. Above n it would
rest on a law of the prompts' values, which n completions of each do not tell.
"""

from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.logs.reward_groups import RewardGroups
from mse_lab.mse.cluster_means import cluster_share
from mse_lab.mse.intervals import Estimate

# Group sizes of the forecast, beside that of the log.
FORECAST_SIZES = (2, 4, 8, 16, 32, 64)


class Forecast(NamedTuple):
    """The share of zero-variance groups at a group size."""

    group_size: int
    zero_variance: Estimate


def mean_share(shares: Floats | Flags, prompts: Ints, level: float, seed: int) -> Estimate:
    """Average shares, NaN left out, of these prompts; the interval is over prompts."""
    known = ~np.isnan(shares)
    rng = np.random.default_rng(seed)
    return cluster_share(shares[known].astype(float), prompts[known], level, rng)


def forecast(groups: RewardGroups, level: float, seed: int) -> list[Forecast]:
    """Forecast the share of zero-variance groups, from the same draws at every size."""
    largest, prompt_K = groups.commonest_size, groups.groups["prompt"].to_numpy()
    sizes = sorted({*FORECAST_SIZES, largest, groups.size_in_use})
    return [
        Forecast(size, mean_share(groups.zero_variance_shares(size), prompt_K, level, seed))
        for size in sizes
        if 2 <= size <= largest
    ]
