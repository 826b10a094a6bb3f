"""Replicates: weights, Gram blocks and products -> the squared error of every group.

    error = w'Kw / G^2 - 2 w'(W rbar) / G + <r_A, r_B>

for g_hat = (1/G) sum_i w_i W_i. For an unbiased estimator its mean over everything random
is the MSE exactly; a single error may be negative. Groups are disjoint, and the same for
all estimators, so that differences and ratios of their errors are paired.

Without the products between completions, K off its diagonal, there are no replicates;
what is left are norms, <r_A, r_B> and the exact laws, which need no more.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mse_lab.estimators import Estimator
from mse_lab.groups import Groups, form_groups, group_grams
from mse_lab.pools import Floats, Pools


class Key(NamedTuple):
    """One curve's point."""

    estimator: str
    group_size: int


def squared_errors(
    weights_PRG: Floats,
    gram_PRGG: Floats,
    products_PRG: Floats,
    reference_product_P: Floats,
) -> Floats:
    """Measure every group's squared error against the two-half reference.

    Args:
        weights_PRG: Weights w_i.
        gram_PRGG: <W_i, W_j> of each group.
        products_PRG: <W_i, rbar>.
        reference_product_P: <r_A, r_B>.

    Returns:
        Errors (P, R), in squared units of the gradient.
    """
    size = weights_PRG.shape[-1]
    # (w' K) w as a batched product: einsum over three operands is many times slower.
    pulled_PRG = (weights_PRG[:, :, None, :] @ gram_PRGG)[:, :, 0]
    quadratic = (pulled_PRG * weights_PRG).sum(-1) / size**2
    linear = (weights_PRG * products_PRG).sum(-1) / size
    return quadratic - 2 * linear + reference_product_P[:, None]


def _errors_at(
    pools: Pools, groups: Groups, estimators: Sequence[Estimator]
) -> dict[str, Floats]:
    size = groups.rewards_PRG.shape[-1]
    gram_PRGG = group_grams(pools, size)
    products_PRG = pools.products_PN.reshape(groups.rewards_PRG.shape)
    return {
        estimator.name: squared_errors(
            estimator.weights(groups), gram_PRGG, products_PRG, pools.reference_product_P
        )
        for estimator in estimators
    }


def measure_errors(
    pools: Pools, estimators: Sequence[Estimator], group_sizes: Sequence[int]
) -> dict[Key, Floats]:
    """Measure every estimator at every group size, all on the same groups.

    Returns:
        Errors (P, R) with R = N / G, by estimator and group size; R = 0 where products
        between completions are not known.
    """
    errors: dict[Key, Floats] = {}
    for size in group_sizes if pools.has_cross_products else ():
        groups = form_groups(pools, size)
        for name, errors_PR in _errors_at(pools, groups, estimators).items():
            errors[Key(name, size)] = errors_PR
    none = np.empty((pools.prompts, 0))
    return {
        Key(one.name, size): errors.get(Key(one.name, size), none)
        for one in estimators
        for size in group_sizes
    }


def block_means(errors_PR: Floats, blocks: int) -> Floats:
    """Average the errors of each block of the largest group size, (P, K)."""
    return errors_PR.reshape(len(errors_PR), blocks, -1).mean(-1)
