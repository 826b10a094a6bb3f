"""The forecast of the share of zero-variance groups at other group sizes G.

Up to the n completions of the log's groups the forecast needs no model and has no bias:
the share of a group's subsets of G whose rewards are all equal, averaged over groups. Above
n it assumes that the values of prompts follow a Beta law, and is marked as a model's.
"""

import math
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.logs.groups import RewardGroups
from mse_lab.mse.cluster_means import cluster_share
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.zero_variance import BetaBinomial, fit_beta_binomial

# Group sizes of the forecast, beside 1, 2 and 4 times that of the log.
FORECAST_SIZES = (2, 4, 8, 16, 32, 64)

BOOTSTRAP_DRAWS = 100  # Bootstrap draws of prompts for the interval of the model.


class Forecast(NamedTuple):
    """The share of zero-variance groups at a group size."""

    group_size: int
    zero_variance: Estimate
    model: bool  # Whether it assumes the Beta law.


def mean_share(shares: Floats | Flags, prompts: Ints, level: float, seed: int) -> Estimate:
    """Average shares, NaN left out, of these prompts; the interval is over prompts."""
    known = ~np.isnan(shares)
    rng = np.random.default_rng(seed)
    return cluster_share(shares[known].astype(float), prompts[known], level, rng)


def _by_model(
    groups: RewardGroups, sizes: list[int], level: float, rng: np.random.Generator
) -> list[Forecast]:
    """Forecast by the Beta law of values; the interval is a bootstrap's, over prompts."""
    several_K = groups.size_K > 1
    pairs = np.stack([groups.right_K, groups.size_K], axis=-1)[several_K]
    prompt_K = np.unique(groups.prompt_K[several_K], return_inverse=True)[1]
    # Groups of one size with equally many right completions are fitted as one.
    cells, cell_K = np.unique(pairs, axis=0, return_inverse=True)
    prompts = int(prompt_K.max()) + 1

    def fit(weights_P: Floats, start: BetaBinomial | None = None) -> BetaBinomial:
        weights = np.bincount(cell_K.ravel(), weights_P[prompt_K], len(cells)).astype(float)
        return fit_beta_binomial(cells[:, 0], cells[:, 1], weights, start)

    law = fit(np.ones(prompts))
    point = [law.zero_variance(size) for size in sizes]
    alike_P = np.full(prompts, 1 / prompts)
    draws = (
        rng.multinomial(prompts, alike_P).astype(float) for _ in range(BOOTSTRAP_DRAWS)
    )
    laws = [fit(draw_P, law) for draw_P in draws]
    drawn = np.array([[one.zero_variance(size) for size in sizes] for one in laws])
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    low, high = np.minimum(low, point), np.maximum(high, point)
    if prompts < 2:  # One prompt gives no interval.
        low = high = np.full(len(sizes), math.nan)
    rows = zip(sizes, zip(point, low, high, strict=True), strict=True)
    return [Forecast(size, Estimate(*ends), True) for size, ends in rows]


def forecast(groups: RewardGroups, level: float, seed: int) -> list[Forecast]:
    """Forecast the share of zero-variance groups, from the same draws at every size."""
    largest = groups.commonest_size
    if largest < 2:
        return []
    in_use = groups.size_in_use
    sizes = sorted({*FORECAST_SIZES, largest, in_use, 2 * in_use, 4 * in_use})
    unbiased = []
    for size in (size for size in sizes if size <= largest):
        shares_K = groups.zero_variance_shares(size)
        share = mean_share(shares_K, groups.prompt_K, level, seed)
        unbiased.append(Forecast(size, share, model=False))
    if not groups.binary or groups.range[0] == groups.range[1]:
        return unbiased
    larger = [size for size in sizes if largest < size <= 4 * in_use]
    return [*unbiased, *_by_model(groups, larger, level, np.random.default_rng(seed))]
