"""Replicates: weights, Gram blocks and products -> the squared error of every group.

    error = w'Kw / G^2 - 2 w'(W rbar) / G + <r_A, r_B>

for g_hat = (1/G) sum_i w_i W_i. For an unbiased estimator its mean over everything random
is the MSE exactly; a single error may be negative. Groups are disjoint, and the same for
all estimators, so that differences and ratios of their errors are paired. All sizes cut the
same blocks, so small groups come in larger numbers for nothing.

A baseline b + d with an error d of its own adds S E[d^2] / G to the MSE. This is
subtracted: it is the price of a finite pool, not of the baseline b. The oracle's V comes
from the 2n completions of the reference, so E[d^2] = Var(Z) / (2n). For b*, learnt from the
N - G completions of the other groups, it is c / ((N - G) G) to first order, with c/N the
cost of learning in `moments.py`.

Where products between completions, K off its diagonal, are not known, there are no errors
(R = 0). The exact laws need only norms and <r_A, r_B>.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.estimators import Estimator
from mse_lab.estimators.groups import Groups
from mse_lab.mse.moments import pool_moments
from mse_lab.mse.pools import Pools


class Key(NamedTuple):
    """The name of a curve's point."""

    estimator: str
    group_size: int


def _best_constant(pools: Pools, group_size: int) -> Floats:
    """b* of each group from all other groups of its prompt, (P, R); 0 without noise."""
    shape = (pools.prompts, -1, group_size)
    norms2 = pools.norms2_PN.reshape(shape).sum(-1)
    weighted = (pools.rewards_PN * pools.norms2_PN).reshape(shape).sum(-1)
    numerator, denominator = (
        whole.sum(-1, keepdims=True) - whole for whole in (weighted, norms2)
    )
    return divide(numerator, denominator)


def form_groups(pools: Pools, group_size: int) -> Groups:
    """Cut the pools into R = N / G disjoint groups a prompt, in the completions' order."""
    shape = (pools.prompts, -1, group_size)
    return Groups(
        rewards_PRG=pools.rewards_PN.reshape(shape),
        lengths_PRG=pools.lengths_PN.reshape(shape),
        norms2_PRG=pools.norms2_PN.reshape(shape),
        value_P=pools.value_P,
        best_constant_PR=_best_constant(pools, group_size),
        logit_norms2_PRG=pools.logit_norms2_PN.reshape(shape),
    )


def group_grams(pools: Pools, group_size: int) -> Floats:
    """Cut the Gram blocks into those of the groups, (P, R, G, G)."""
    prompts, blocks, largest, _ = pools.gram_PKGG.shape
    parts = largest // group_size
    split = pools.gram_PKGG.reshape(prompts, blocks, parts, group_size, parts, group_size)
    return np.einsum("pkagah->pkagh", split).reshape(prompts, -1, group_size, group_size)


def squared_errors(
    weights_PRG: Floats,
    gram_PRGG: Floats,
    products_PRG: Floats,
    reference_product_P: Floats,
) -> Floats:
    """Measure every group's squared error, (P, R), in squared units of the gradient."""
    size = weights_PRG.shape[-1]
    # (w' K) w as a batched product: einsum over three operands is many times slower.
    pulled_PRG = (weights_PRG[:, :, None, :] @ gram_PRGG)[:, :, 0]
    quadratic = (pulled_PRG * weights_PRG).sum(-1) / size**2
    linear = (weights_PRG * products_PRG).sum(-1) / size
    return quadratic - 2 * linear + reference_product_P[:, None]


def price_of_baseline(pools: Pools, estimator: Estimator, size: int) -> Floats | float:
    """Estimate what the error of an estimated baseline adds to each MSE, (P,)."""
    if estimator.learns_baseline:
        count = pools.rewards_PN.shape[1]
        return pool_moments(pools).learning * count / (count - size) / size
    if estimator.name == "oracle":
        moments = pool_moments(pools)
        return moments.value_variance * moments.norm2 / size
    return 0.0


def measure_errors(
    pools: Pools, estimators: Sequence[Estimator], group_sizes: Sequence[int]
) -> dict[Key, Floats]:
    """Measure every estimator at every group size, all on the same groups.

    Errors are (P, R) with R = N / G; R = 0 where products of completions are not known.
    """
    keys = [Key(estimator.name, size) for estimator in estimators for size in group_sizes]
    errors: dict[Key, Floats] = dict.fromkeys(keys, np.empty((pools.prompts, 0)))
    for size in group_sizes if pools.has_cross_products else ():
        groups, gram_PRGG = form_groups(pools, size), group_grams(pools, size)
        products_PRG = pools.products_PN.reshape(groups.rewards_PRG.shape)
        for estimator in estimators:
            whole_PR = squared_errors(
                estimator.weights(groups),
                gram_PRGG,
                products_PRG,
                pools.reference_product_P,
            )
            price = np.expand_dims(price_of_baseline(pools, estimator, size), -1)
            errors[Key(estimator.name, size)] = whole_PR - price
    return errors
