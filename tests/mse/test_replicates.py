"""Squared errors: those of the vectors themselves, less what learning a baseline costs."""

from dataclasses import replace

import numpy as np
import pytest

from mse_lab.estimators import find_estimators
from mse_lab.mse.grouping import form_groups, group_grams
from mse_lab.mse.replicates import measure_errors, squared_errors
from simulated import make_design


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


def test_learning_a_baseline_is_taken_off_once():
    """Where norms are equal b* is V, learnt as the mean of the other N - G rewards.

    It adds S Var / G, Var = s^2 / (N - G) estimated from all N rewards.
    """
    rng, size = np.random.default_rng(0), 4
    pools = make_design(rng, 3).draw(rng, 16, 2, 8)
    lengths = np.sqrt(pools.in_blocks(pools.norms2_PN))
    gram = 3 * pools.gram_PKGG / lengths[..., :, None] / lengths[..., None, :]
    pools = replace(pools, gram_PKGG=gram)
    estimators = find_estimators(["best-constant"], [size])
    groups = form_groups(pools, size)
    whole = squared_errors(
        estimators[0].weights(groups),
        group_grams(pools, size),
        pools.products_PN.reshape(groups.rewards_PRG.shape),
        pools.reference_product_P,
    )
    added = 3 * pools.rewards_PN.var(-1, ddof=1) / (16 - size) / size
    found = measure_errors(pools, estimators, [size])["best-constant", size]
    np.testing.assert_allclose(whole - found, added[:, None] + 0 * whole, rtol=1e-9)
