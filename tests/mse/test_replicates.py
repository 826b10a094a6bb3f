"""Squared errors: those of the vectors, less the price of estimated baselines."""

from dataclasses import replace

import numpy as np
import pytest

from mse_lab.estimators import find_estimators
from mse_lab.mse.replicates import (
    form_groups,
    group_grams,
    measure_errors,
    squared_errors,
)
from simulated import make_design

PROMPTS, BLOCKS, LARGEST = 3, 4, 8


@pytest.fixture(scope="module")
def pools():
    rng = np.random.default_rng(0)
    return make_design(rng, PROMPTS).draw(rng, 16, BLOCKS, LARGEST)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_best_constant_is_learnt_from_the_other_groups(pools, size):
    """Every group: its own completions are left out, all others are in."""
    found = form_groups(pools, size).best_constant_PR
    norms2_PN, rewards_PN = pools.norms2_PN, pools.rewards_PN
    for x in range(PROMPTS):
        for group in range(found.shape[1]):
            other = np.arange(BLOCKS * LARGEST) // size != group
            norms2, rewards = norms2_PN[x, other], rewards_PN[x, other]
            expected = (norms2 * rewards).sum() / norms2.sum()
            assert found[x, group] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_groups_gram_block_is_of_its_completions(pools, size):
    """In the order of the completions, as their rewards and norms are."""
    grams = group_grams(pools, size)
    norms2 = grams.diagonal(axis1=-2, axis2=-1)
    np.testing.assert_array_equal(norms2, form_groups(pools, size).norms2_PRG)
    for group in range(grams.shape[1]):
        block, at = divmod(group * size, LARGEST)
        expected = pools.gram_PKGG[:, block, at : at + size, at : at + size]
        np.testing.assert_array_equal(grams[:, group], expected)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_errors_are_those_of_vectors(size):
    """||g_hat - rbar||^2 where <r_A, r_B> is ||rbar||^2."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((2, 3, size, 7))
    weights = rng.standard_normal((2, 3, size))
    mean = rng.standard_normal((2, 7))
    estimates = np.einsum("prg,prgd->prd", weights, scores) / size
    expected = ((estimates - mean[:, None]) ** 2).sum(-1)
    found = squared_errors(
        weights,
        scores @ scores.swapaxes(-1, -2),
        np.einsum("prgd,pd->prg", scores, mean),
        (mean**2).sum(-1),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["best-constant", "oracle"])
def test_the_price_of_an_estimated_baseline_is_taken_off_once(name):
    """Where norms are equal b* is V, learnt as the mean of the other N - G rewards.

    It adds S Var / G, Var = s^2 / (N - G) estimated from all N rewards; the oracle's V, the
    mean of a reference of 10, s^2 / 10 of its rewards.
    """
    rng, size = np.random.default_rng(0), 4
    pools = make_design(rng, 3).draw(rng, 10, 2, 8)
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
