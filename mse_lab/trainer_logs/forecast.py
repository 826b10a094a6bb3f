"""Zero-variance groups: those of the log, and those that other group sizes would have.

Up to the n completions of a group the forecast needs no model and has no bias: it is the
share of groups of G within each group, averaged over groups. Beyond, values are taken to
follow a Beta law, which the forecast is marked with.
"""

from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.beta_binomial import BetaBinomial, fit_beta_binomial
from mse_lab.mse.cluster_means import cluster_share
from mse_lab.mse.intervals import Estimate
from mse_lab.trainer_logs.groups import Groups

# Group sizes that are forecast, with that of the log and twice and four times that.
SIZES = (2, 4, 8, 16, 32, 64)

DRAWS = 100  # Draws of prompts for the interval of the model.


class Forecast(NamedTuple):
    """The share of zero-variance groups at a group size, and whether by a model."""

    group_size: int
    zero_variance: Estimate
    model: bool


def share_of_groups(
    shares_K: Floats, groups: Groups, level: float, rng: np.random.Generator
) -> Estimate:
    """Average shares over the groups that have one; the interval is over prompts."""
    known = ~np.isnan(shares_K)
    codes = np.unique(groups.prompt_K[known], return_inverse=True)[1]
    return cluster_share(shares_K[known], codes, level, rng)


def _by_model(
    groups: Groups, sizes: list[int], level: float, rng: np.random.Generator
) -> list[Forecast]:
    """Forecast by the Beta law of values; its interval from prompts drawn again."""
    pairs = np.stack([groups.right_K, groups.size_K], axis=-1)[groups.size_K > 1]
    prompt_K = np.unique(groups.prompt_K[groups.size_K > 1], return_inverse=True)[1]
    cells, cell_K = np.unique(pairs, axis=0, return_inverse=True)
    prompts = int(prompt_K.max()) + 1

    def fit(weights_P: Floats, start: BetaBinomial | None = None) -> BetaBinomial:
        weights = np.bincount(cell_K.ravel(), weights_P[prompt_K], len(cells)).astype(float)
        return fit_beta_binomial(cells[:, 0], cells[:, 1], weights, start)

    law = fit(np.ones(prompts))
    point = [law.zero_variance(size) for size in sizes]
    draws_BP = rng.multinomial(prompts, np.full(prompts, 1 / prompts), size=DRAWS)
    again = [fit(draw_P.astype(float), law) for draw_P in draws_BP]
    drawn = np.array([[one.zero_variance(size) for size in sizes] for one in again])
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    return [
        Forecast(size, Estimate(value, min(low, value), max(high, value)), True)
        for size, value, low, high in zip(sizes, point, low, high, strict=True)
    ]


def forecast(groups: Groups, level: float, seed: int) -> list[Forecast]:
    """Forecast the share of zero-variance groups at each size, with the same draws."""
    largest = groups.commonest_size
    if largest < 2:
        return []
    sizes = sorted({*SIZES, largest, 2 * largest, 4 * largest})
    known = []
    for size in (size for size in sizes if size <= largest):
        shares_K = groups.zero_variance_shares(size)
        rng = np.random.default_rng(seed)
        share = share_of_groups(shares_K, groups, level, rng)
        known.append(Forecast(size, share, model=False))
    if not groups.binary or groups.range[0] == groups.range[1]:
        return known
    beyond = [size for size in sizes if largest < size <= 4 * largest]
    return [*known, *_by_model(groups, beyond, level, np.random.default_rng(seed))]
