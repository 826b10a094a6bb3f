"""Columns: what their values alone, which `whole/test_known_truth.py` has, do not show."""

from dataclasses import replace

import numpy as np
import pytest

from mse.test_reference_noise import independent_design
from mse_lab.mse.reference_noise import aggregate_norm2_error
from simulated import analysed, make_design

NAMES, SIZES = ["vanilla", "grpo", "oracle"], [4, 32]


@pytest.fixture(scope="module")
def pools():
    """Pools of 40 prompts with a small reference, so that its noise is seen."""
    rng = np.random.default_rng(0)
    return make_design(rng, 40).draw(rng, 32, 6, 32)


@pytest.fixture(scope="module")
def table(pools):
    """`mse.csv` by estimator and group size."""
    made = analysed(pools, SIZES, estimators=NAMES, resamples=1000).mse
    return made.set_index(["estimator", "group_size"])


def test_ratios_are_paired(pools, table):
    """At G = 32 GRPO-type and oracle are nearly one estimator, on the same groups."""
    for (name, size), row in table.iterrows():
        assert row.replicates == pools.rewards_PN.shape[1] // size
        assert row.ratio_low <= row.ratio <= row.ratio_high, (name, size)
    assert (table.loc["oracle"][["ratio_low", "ratio", "ratio_high"]] == 1).all(axis=None)
    row = table.loc["grpo", 32]
    alone = (row.mse_high - row.mse_low) / row.mse
    assert row.ratio_high - row.ratio_low < 0.3 * row.ratio * alone


def test_scale_free_ratios_are_paired(pools, table):
    """Of ||g||^2 - <u, g>^2 / E||g_hat||^2, where there is more than Figure 4's three."""
    assert "scale_free_ratio" not in table
    both = analysed(pools, SIZES, estimators=[*NAMES, "centred"], resamples=1000).mse
    both = both.set_index(["estimator", "group_size"])
    top, base = both.loc["centred", 32], both.loc["oracle", 32]
    ratio = top.scale_free_mse / base.scale_free_mse
    assert top.scale_free_ratio == pytest.approx(ratio)
    width = (top.scale_free_mse_high - top.scale_free_mse_low) / top.scale_free_mse
    paired = (top.scale_free_ratio_high - top.scale_free_ratio_low) / ratio
    assert paired < 0.3 * width


def test_moments_take_the_whole_reference(pools):
    """V and Var(Z) from all its rewards, norms from the replicates."""
    found = analysed(pools, SIZES, estimators=NAMES).prompts
    rewards, norms2 = pools.reference_rewards_PN, pools.norms2_PN.mean(-1)
    np.testing.assert_allclose(found.value, rewards.mean(-1), rtol=1e-12)
    np.testing.assert_allclose(found.score_norm2, norms2, rtol=1e-12)
    zeta = rewards.var(-1, ddof=1) * norms2 + pools.reference_product_P
    np.testing.assert_allclose(found.zeta, zeta, rtol=1e-9)


def test_rho_stands_in_the_table_where_rewards_are_0_and_1(pools):
    table = analysed(pools, SIZES).prompts
    assert ((table.rho_low < table.rho) & (table.rho < table.rho_high)).all()
    graded = analysed(replace(pools, rewards_PN=pools.rewards_PN / 2), SIZES).prompts
    assert graded[["rho", "rho_low", "rho_high"]].isna().all(axis=None)


def test_nothing_is_divided_by_a_norm_that_noise_explains():
    """Prompts without a gradient: an estimate above zero is within its error as a rule."""
    rng = np.random.default_rng(0)
    design = independent_design(rng, 6)
    places = set()
    for _ in range(12):
        pools = design.draw(rng, 16, 2, 4)
        norm2, error = pools.aggregate_norm2, aggregate_norm2_error(pools)
        known = analysed(pools, [4], resamples=5).mse.relative_mse.notna()
        assert (known == (norm2 > error)).all()
        places.add((norm2 > 0, norm2 > error))
    assert places >= {(False, False), (True, False), (True, True)}
