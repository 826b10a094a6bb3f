"""Columns: what their values alone, which `whole/test_known_truth.py` has, do not show."""

from dataclasses import replace

import numpy as np
import pytest

from mse.test_reference_noise import independent_design
from mse_lab.mse.reference_noise import aggregate_norm2_error
from mse_lab.results.analysis import interval_heads
from simulated import analysed, make_pools

NAMES, SIZES = ["vanilla", "grpo", "oracle"], [4, 32]


@pytest.fixture(scope="module")
def pools():
    """Pools of 40 prompts with a small reference, so that its noise is seen."""
    return make_pools(40, 32, 6, 32)


@pytest.mark.parametrize(("kind", "name"), [("", "grpo"), ("scale_free_", "centred")])
def test_ratios_are_paired(pools, kind, name):
    """At G = 32 both are nearly one estimator with the oracle, on the same groups.

    Of ||g||^2 - <u, g>^2 / E||g_hat||^2 where there is more than Figure 4's three.
    """
    names = [*NAMES, "centred"] if kind else NAMES
    table = analysed(pools, SIZES, estimators=names, resamples=1000).mse
    assert ("scale_free_ratio" in table) == bool(kind)
    groups = pools.rewards_PN.shape[1] // table.group_size
    assert (table.replicates == groups).all()
    table = table.set_index(["estimator", "group_size"])
    mse, ratio = (table[interval_heads(f"{kind}{one}")] for one in ("mse", "ratio"))
    assert (ratio.loc["oracle"] == 1).all(axis=None)
    alone, base, paired = mse.loc[name, 32], mse.loc["oracle", 32], ratio.loc[name, 32]
    assert paired.iloc[0] == pytest.approx(alone.iloc[0] / base.iloc[0])
    assert np.ptp(paired) / paired.iloc[0] < 0.3 * np.ptp(alone) / alone.iloc[0]


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
