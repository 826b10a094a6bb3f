"""Random prompts and a fixed budget: which group size is best?

B prompts drawn from the prompt distribution, G completions each, N = B G in all. The
aggregate's MSE against the gradient of the whole distribution is, for GRPO-type,

    MSE = c1/B + c2/(B G) + c3/(B G (G-1)) = (c1 G + c2 + c3/(G-1)) / N,

with c1 = E||g(X) - g||^2, c2 = E[T], c3 = E[zeta], least at G* = 1 + sqrt(c3/c1), whatever
N. This is Proposition 3 and Theorem 7 of arXiv 2603.01162 with the exact constants; the
paper's sqrt(c3/c1) is the form for large G. A constant baseline has c3 = 0, so its best G
is 1.

    c1 = mean_x <r_A(x), r_B(x)> - (1/(P(P-1))) sum_{x != x'} <rbar(x), rbar(x')>

is unbiased: different prompts are independent, so halves are needed on the diagonal only.
"""

from typing import NamedTuple

import numpy as np

from mse_lab.laws import Moments, pool_moments
from mse_lab.pools import Floats, Pools


class Constants(NamedTuple):
    """c1, c2 and c3, numbers or arrays over resamples; and the population's ||g||^2.

    Attributes:
        between: c1 = E||g(X) - g||^2, what only more prompts reduce.
        oracle: c2 = E[T].
        pairs: c3 = E[zeta], the price of a baseline from the group.
        vanilla: E[A - ||g||^2], in the place of c2 for vanilla.
        gradient2: ||E g(X)||^2.
    """

    between: Floats
    oracle: Floats
    pairs: Floats
    vanilla: Floats
    gradient2: Floats


def _constants(pools: Pools, moments: Moments, counts_BP: Floats) -> Constants:
    """Evaluate the constants for samples in which prompt x stands counts[x] times."""
    size = counts_BP.sum(-1)
    own = pools.reference_product_P
    products = pools.between_PP.copy()
    np.fill_diagonal(products, own)
    mean_own = counts_BP @ own / size
    # Pairs of different draws; two draws of one prompt have the product ||g(x)||^2.
    pairs = ((counts_BP @ products) * counts_BP).sum(-1) - counts_BP @ own
    gradient2 = pairs / (size * (size - 1))
    means = counts_BP / size[:, None]
    return Constants(
        between=mean_own - gradient2,
        oracle=means @ moments.trace_oracle,
        pairs=means @ moments.zeta,
        vanilla=means @ moments.constant_baseline(0.0),
        gradient2=gradient2,
    )


def measure_constants(pools: Pools) -> Constants:
    """Estimate the constants of the prompt distribution, each unbiased; floats (1,).

    Args:
        pools: Pools of two prompts or more.
    """
    return _constants(pools, pool_moments(pools), np.ones((1, pools.prompts)))


def resample_constants(pools: Pools, resamples: int, rng: np.random.Generator) -> Constants:
    """Resample the constants over prompts; arrays (B,).

    Prompts only: their completions' noise is part of the spread between prompts, and
    resampling completions too would count it twice. c1 is a variance over prompts, which
    resampling P of P shrinks by (P-1)/P on average, and ||E g(X)||^2 the square of a mean,
    which it lifts by c1/P; both are undone.
    """
    prompts = pools.prompts
    uniform = np.full(prompts, 1 / prompts)
    counts = rng.multinomial(prompts, uniform, size=resamples).astype(float)
    drawn = _constants(pools, pool_moments(pools), counts)
    between = drawn.between * prompts / (prompts - 1)
    return drawn._replace(between=between, gradient2=drawn.gradient2 - between / prompts)


def best_group_size(constants: Constants) -> Floats:
    """G* = 1 + sqrt(c3 / c1); infinite where c1 is not positive, NaN where c3 is 0 too.

    >>> one = np.ones(1)
    >>> best_group_size(Constants(one, one, 9 * one, one, one))
    array([4.])
    """
    between = np.maximum(constants.between, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 + np.sqrt(np.maximum(constants.pairs, 0.0) / between))


def grpo_mse_times_budget(constants: Constants, group_size: Floats | float) -> Floats:
    """N x MSE of GRPO-type at a budget of N completions: c1 G + c2 + c3 / (G-1)."""
    size = np.asarray(group_size, dtype=float)
    return constants.between * size + constants.oracle + constants.pairs / (size - 1)


def vanilla_mse_times_budget(constants: Constants, group_size: Floats | float) -> Floats:
    """N x MSE of vanilla at a budget of N completions: c1 G + E[A - ||g||^2]."""
    return constants.between * np.asarray(group_size, dtype=float) + constants.vanilla
