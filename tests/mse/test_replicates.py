"""Squared errors: what an estimated baseline is learnt from, and its price."""

from dataclasses import replace

import numpy as np
import pytest

from mse_lab.estimators import find_estimators
from mse_lab.mse.replicates import form_groups, group_grams, measure_errors, squared_errors
from simulated import make_pools


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_best_constant_is_learnt_from_the_other_groups(size):
    """Every group: its own completions are left out, all others are in."""
    pools = make_pools(3, 16, 4, 8)
    found = form_groups(pools, size).best_constant_PR
    for x, group in np.ndindex(found.shape):
        other = np.arange(32) // size != group
        norms2, rewards = pools.norms2_PN[x, other], pools.rewards_PN[x, other]
        expected = (norms2 * rewards).sum() / norms2.sum()
        assert found[x, group] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["best-constant", "oracle"])
def test_the_price_of_an_estimated_baseline_is_taken_off_once(name):
    """Where norms are equal b* is V, learnt as the mean of the other N - G rewards.

    It adds S Var / G, Var = s^2 / (N - G) estimated from all N rewards; the oracle's V, the
    mean of a reference of 10, s^2 / 10 of its rewards.
    """
    pools, size = make_pools(3, 10, 2, 8), 4
    lengths = np.sqrt(pools.in_blocks(pools.norms2_PN))
    gram = 3 * pools.gram_PKGG / lengths[..., :, None] / lengths[..., None, :]
    pools = replace(pools, gram_PKGG=gram)
    estimators = find_estimators([name], [size])
    groups = form_groups(pools, size)
    whole = squared_errors(
        estimators[0].weights(groups),
        group_grams(pools, size),
        pools.products_PN.reshape(groups.rewards_PRG.shape),
        pools.reference_product_P,
    )
    learnt, known = pools.rewards_PN, pools.reference_rewards_PN
    rewards, count = (learnt, 16 - size) if name == "best-constant" else (known, 10)
    added = 3 * rewards.var(-1, ddof=1) / count / size
    found = measure_errors(pools, estimators, [size])[name, size]
    np.testing.assert_allclose(whole - found, added[:, None] + 0 * whole, rtol=1e-9)
