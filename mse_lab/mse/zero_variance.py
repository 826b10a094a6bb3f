"""Zero-variance groups: how often all rewards of a group are equal.

If a prompt's completions have reward z with probability p_z, its share of such groups is
sum_z p_z^G, for rewards 0 and 1 p^G + (1-p)^G. The mean over random prompts is a mean of
numbers in [0, 1] to which a few prompts may contribute nearly everything, and prompts that
were not drawn even more: if no prompt of 60 has a share of one, 6% of all prompts still
may. Its interval is Gaffke's: random weights, Dirichlet(1, ..., 1), average the P shares
and one end of the range, 1 for the upper end and 0 for the lower. If all shares are 0 or 1
it is Clopper and Pearson's. Source: Gaffke (2005), in the form of Learned-Miller and
Thomas, arXiv 1905.06208.

n completions of a prompt give the share without a model up to G = n only. If the values V
of prompts follow a Beta(a, b), the number of right completions among n is Beta-binomial,

    E[V^G + (1-V)^G] = B(a+G, b)/B(a, b) + B(a, b+G)/B(a, b),

and a and b maximise the likelihood. Two laws of V that agree on groups of n may differ at
larger G, so beyond n this is a model.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import betaln, digamma

from mse_lab.arrays import Floats, Ints
from mse_lab.estimators.groups import is_binary
from mse_lab.mse.intervals import Estimate

# By how much groups may exceed the completions of a prompt where a law of values is used.
BEYOND = 4


def zero_variance_shares(rewards: Iterable[Floats], group_size: int) -> Floats:
    """Estimate the probability that a group's rewards are all equal, by prompt (P,).

    The share of all groups of G among a prompt's n >= G completions, sum_z C(n_z, G) /
    C(n, G) with n_z completions of reward z. It is unbiased; for rewards 0 and 1 its
    expectation is p^G + (1-p)^G.

    >>> zero_variance_shares(np.array([[1.0, 1.0, 0.0]]), 2)  # 1 pair of 3
    array([0.33333333])
    """
    counts = (np.unique(rewards_N, return_counts=True)[1] for rewards_N in rewards)
    return np.array([equal_share(each, each.sum(), group_size).sum() for each in counts])


def equal_share(counts: NDArray[Any], sizes: NDArray[Any], group_size: int) -> Floats:
    """Share of all groups of G of `sizes` completions that are among `counts` of these.

    C(count, G) / C(size, G), as a product whose factors are at most one, for sizes of at
    least G.

    >>> equal_share(np.array([2.0, 3.0]), np.array([3.0]), 2)
    array([0.33333333, 1.        ])
    """
    share = np.ones(np.broadcast(counts, sizes).shape)
    for drawn in range(group_size):
        share = share * np.maximum(counts - drawn, 0.0) / (sizes - drawn)
    return share


def mean_share(
    shares_P: Floats, level: float, draws: int, rng: np.random.Generator
) -> Estimate:
    """Estimate the mean of shares in [0, 1] over prompts drawn at random, (P,).

    The interval covers at least its level, even where the only prompts with
    zero-variance groups are so rare that none was drawn. Where shares are alike it is up to
    twice as wide as Student's.

    >>> rng = np.random.default_rng(0)
    >>> low, high = mean_share(np.zeros(60), 0.95, 4000, rng)[1:]
    >>> low, round(high, 2)  # 1 - 0.025^(1/60), Clopper and Pearson's
    (0.0, 0.06)
    """
    weights = rng.dirichlet(np.ones(len(shares_P) + 1), size=draws)
    mean, tail = weights[:, 1:] @ shares_P, (1 - level) / 2
    low = float(np.quantile(mean, tail))
    high = float(np.quantile(mean + weights[:, 0], 1 - tail))
    return Estimate(float(shares_P.mean()), low, min(high, 1.0))


# Bounds of log a and log b: from spikes at 0 and 1 to values that are all alike.
_BOUNDS = (-9.0, 12.0)


class BetaBinomial(NamedTuple):
    """The law of values, Beta(a, b)."""

    a: float
    b: float

    def zero_variance(self, group_size: int) -> float:
        """Share of groups whose rewards are all equal.

        >>> round(BetaBinomial(1.0, 1.0).zero_variance(2), 4)  # 2 int v^2 dv
        0.6667
        """
        a, b, base = self.a, self.b, betaln(self.a, self.b)
        right, wrong = betaln(a + group_size, b), betaln(a, b + group_size)
        return float(np.exp(right - base) + np.exp(wrong - base))


def fit_beta_binomial(
    right_K: Ints, sizes_K: Ints, weights_K: Floats, start: BetaBinomial | None = None
) -> BetaBinomial:
    """Fit the law of values to groups, of whose completions some are right.

    At least one group has two completions or more; `weights_K` says how often each group
    occurred. The search begins at `start`, by default at two laws with the groups' mean.
    """
    wrong_K, parts_K = sizes_K - right_K, weights_K / weights_K.sum()

    def loss(logs: Floats) -> tuple[float, Floats]:
        """The loss, up to a constant, and its gradient in the logarithms."""
        a, b = np.exp(logs)
        fitted = betaln(a + right_K, b + wrong_K) - betaln(a, b)
        both = digamma(a + b) - digamma(a + b + sizes_K)
        slopes = [digamma(a + right_K) - digamma(a), digamma(b + wrong_K) - digamma(b)]
        gradient = [
            -scale * float(parts_K @ (slope + both))
            for scale, slope in zip((a, b), slopes, strict=True)
        ]
        return -float(parts_K @ fitted), np.array(gradient)

    mean = float((weights_K * right_K).sum() / (weights_K * sizes_K).sum())
    mean = min(max(mean, 1e-3), 1 - 1e-3)
    starts = [np.log([size * mean, size * (1 - mean)]) for size in (0.5, 5.0)]
    fits = [
        minimize(
            loss,
            np.clip(begin, *_BOUNDS),
            jac=True,
            bounds=[_BOUNDS] * 2,
            method="L-BFGS-B",
        )
        for begin in (starts if start is None else [np.log(start)])
    ]
    a, b = np.exp(min(fits, key=lambda fit: fit.fun).x)
    return BetaBinomial(float(a), float(b))


def modelled_share(rewards: Sequence[Floats], group_size: int) -> float:
    """Share of zero-variance groups that are larger than the completions at hand.

    By a Beta law of the values; NaN for rewards other than 0 and 1, and for groups of more
    than `BEYOND` times the completions of a prompt.
    """
    sizes_P = np.array([len(rewards_N) for rewards_N in rewards])
    right_P = np.array([rewards_N.sum() for rewards_N in rewards])
    if group_size > BEYOND * sizes_P.min() or not all(map(is_binary, rewards)):
        return np.nan
    law = fit_beta_binomial(right_P.astype(int), sizes_P, np.ones(len(sizes_P)))
    return law.zero_variance(group_size)
