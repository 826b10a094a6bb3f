"""Cluster means: a mean over groups, and how it varies from prompt to prompt.

The K groups of a training log come from P prompts, some of them drawn several times; groups
of one prompt are dependent. With s_p the sum of a prompt's values and m_p their number the
mean is a ratio of sums over prompts,

    M = sum_p s_p / sum_p m_p,    Var(M) = P/(P-1) sum_p (s_p - M m_p)^2 / (sum_p m_p)^2,

to first order (Cochran 1977, section 9.5), with P - 1 degrees of freedom, or fewer where a
few prompts carry it (`intervals.spread_of_means`, of one mean over P).

To the mean of shares in [0, 1] a few prompts may contribute nearly everything, and prompts
that were not drawn even more: if no prompt of 60 has a share of one, 6% of all prompts
still may. Its interval is Gaffke's: random weights, Dirichlet(1, ..., 1), average the
prompts' (s_p, m_p) and one end of the range, 1 for the upper end and 0 for the lower, which
counts as a prompt with the mean number of groups. If each prompt has one group and all
shares are 0 or 1 it is Clopper and Pearson's. Source: Gaffke (2005), in the form of
Learned-Miller and Thomas, arXiv 1905.06208.
"""

import math

import numpy as np

from mse_lab.arrays import Flags, Floats, Ints
from mse_lab.mse.intervals import Estimate, Statistic, half_width

# With more kinds of prompts than this, Gaffke's interval costs too much: Student's is used.
MOST_KINDS = 4000


def _number(clusters_K: Ints) -> Ints:
    return np.unique(clusters_K, return_inverse=True)[1]


def cluster_mean(values_K: Floats, clusters_K: Ints, level: float) -> Estimate:
    """Average values over groups; the interval is over prompts.

    >>> cluster_mean(np.array([0.0, 2.0, 1.0]), np.array([0, 1, 2]), 0.95).value
    1.0
    """
    clusters_K = _number(clusters_K)
    sizes_P, mean = np.bincount(clusters_K).astype(float), float(values_K.mean())
    clusters = len(sizes_P)
    if clusters < 2:
        return Estimate(mean, math.nan, math.nan)
    apart_P = np.bincount(clusters_K, values_K) - mean * sizes_P
    groups = {"prompts": apart_P[None] * clusters / sizes_P.sum()}
    return Statistic(mean, groups, {}).interval(level)


def cluster_change(
    values_K: Floats, later_K: Flags, clusters_K: Ints, level: float
) -> Estimate:
    """Estimate by how much the mean over some groups exceeds that over the others.

    Prompts in both parts are paired: a prompt's contribution to the difference is the
    difference of its contributions to the two means. The degrees of freedom are those of
    the part with fewer prompts.

    >>> values = np.array([1.0, 3.0, 0.0, 2.0])
    >>> cluster_change(values, values > 0.5, np.array([0, 1, 0, 1]), 0.95).value
    2.0
    """
    clusters_K = _number(clusters_K)
    shares, degrees = [], math.inf
    for part_K, sign in ((later_K, 1.0), (~later_K, -1.0)):
        clusters = len(np.unique(clusters_K[part_K]))
        apart_K = np.where(part_K, values_K - values_K[part_K].mean(), 0.0)
        share_P = np.bincount(clusters_K, apart_K) / part_K.sum()
        shares.append(sign * share_P * math.sqrt(clusters / max(clusters - 1, 1)))
        degrees = min(degrees, clusters - 1)
    change = float(values_K[later_K].mean() - values_K[~later_K].mean())
    if degrees < 1:
        return Estimate(change, math.nan, math.nan)
    reach = half_width(float(np.linalg.norm(shares[0] + shares[1])), level, degrees)
    return Estimate(change, change - reach, change + reach)


def cluster_share(
    shares_K: Floats,
    clusters_K: Ints,
    level: float,
    rng: np.random.Generator,
    draws: int = 4000,
) -> Estimate:
    """Average shares in [0, 1] over groups; the interval is over prompts drawn at random.

    It covers at least its level, even where the only prompts with a share are so rare that
    none was drawn. Where shares are alike it is up to twice as wide as Student's. Prompts
    with the same sum and number of groups are drawn together, because their weights add up
    to a Gamma variable. One prompt gives no interval.

    >>> rng = np.random.default_rng(0)
    >>> low, high = cluster_share(np.zeros(60), np.arange(60), 0.95, rng)[1:]
    >>> low, round(high, 2)  # 1 - 0.025^(1/60), Clopper and Pearson's
    (0.0, 0.06)
    """
    clusters_K = _number(clusters_K)
    sums_P, sizes_P = np.bincount(clusters_K, shares_K), np.bincount(clusters_K)
    pairs = np.stack([sums_P, sizes_P], axis=-1)
    kinds, counts = np.unique(pairs.round(12), axis=0, return_counts=True)
    mean, tail = float(shares_K.mean()), (1 - level) / 2
    if len(sums_P) < 2:
        return Estimate(mean, math.nan, math.nan)
    if len(kinds) > MOST_KINDS:
        low, high = cluster_mean(shares_K, clusters_K, level)[1:]
        return Estimate(mean, max(low, 0.0), min(high, 1.0))
    weights = rng.gamma(counts, size=(draws, len(kinds)))
    end = rng.exponential(size=draws) * pairs[:, 1].mean()
    tops, groups = weights @ kinds[:, 0], weights @ kinds[:, 1] + end
    low = float(np.quantile(tops / groups, tail))
    high = float(np.quantile((tops + end) / groups, 1 - tail))
    return Estimate(mean, min(low, mean), max(min(high, 1.0), mean))
