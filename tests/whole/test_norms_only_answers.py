"""Answers and intervals of pools without products between completions."""

from dataclasses import replace

import numpy as np
import pytest

from mse_lab.estimators import ESTIMATORS, find_estimators
from mse_lab.mse.curves import Curves, measure_curves
from mse_lab.mse.reference_noise import covariance_square_trace, draw_reference_noise
from mse_lab.mse.replicates import measure_errors
from mse_lab.report.advice_report import advice_text
from mse_lab.results.warnings import warn_of_norms_only
from simulated import analysed, make_design

SIZES = [2, 4, 8]


LAWS = ["vanilla", "grpo", "oracle"]


def norms_only(pools, prompts=slice(None)):
    """Forget the products between completions of some prompts."""
    gram = pools.gram_PKGG.copy()
    index = np.arange(gram.shape[-1])
    gram[prompts] = np.nan
    gram[..., index, index] = pools.gram_PKGG[..., index, index]
    return replace(pools, gram_PKGG=gram)


def sample(seed=0, prompts=60, reference=256, blocks=4, largest=16):
    """A design of simulated prompts, and the pools of a run."""
    rng = np.random.default_rng(seed)
    design = make_design(rng, prompts=prompts)
    return design, design.draw(rng, reference, blocks, largest)


def test_there_are_no_replicates():
    _, pools = sample()
    assert pools.has_cross_products
    for known in (norms_only(pools), norms_only(pools, slice(3, 4))):
        assert not known.has_cross_products
        errors = measure_errors(known, find_estimators(["grpo"], SIZES), SIZES)
        assert [one.shape for one in errors.values()] == [(60, 0)] * 3
        found = measure_curves(
            Curves(known, draw_reference_noise(known, 100, np.random.default_rng(0))),
            find_estimators(["grpo"], SIZES),
            errors,
        )
        assert all(one is None and law is not None for one, law in found.values())
        [warning] = warn_of_norms_only(known, found)
        assert "there is no law" not in warning
    assert known.has_cross_products_P.sum() == 59


def test_the_bound_on_the_noise_of_the_reference():
    """Where products are not known, (E e^2 ||W||^2)^2; elsewhere as ever."""
    _, pools = sample()
    exact = covariance_square_trace(pools)
    found = covariance_square_trace(norms_only(pools, slice(0, 20)))
    np.testing.assert_array_equal(found[20:], exact[20:])
    residuals2 = (pools.rewards_PN - pools.value_P[:, None]) ** 2
    residuals2 += (pools.reward_variance_P * (1 / 127 - 1 / 256))[:, None]
    by_hand = (residuals2 * pools.norms2_PN).mean(-1) ** 2
    np.testing.assert_allclose(found[:20], by_hand[:20], rtol=1e-12)
    # Six dimensions share the noise: at most six times too large, up to noise.
    assert (found[:20] >= 0.9 * exact[:20]).all()
    assert found[:20].sum() < 6 * exact[:20].sum()


def law_intervals(pools, seed):
    """Intervals of the laws at G = 4."""
    curves = Curves(pools, draw_reference_noise(pools, 200, np.random.default_rng(seed)))
    return {name: curves.by_law(ESTIMATORS[name], 4).interval("mse", 0.95) for name in LAWS}


@pytest.mark.parametrize("prompts", [4, 60])
def test_intervals_of_laws_are_not_absurd(prompts):
    """On average over 20 runs no narrower than with the products, about the same value.

    So they cover as often; and they are at most a tenth wider.
    """
    rng = np.random.default_rng(1)
    design, widths = make_design(rng, prompts=prompts), []
    for trial in range(20):
        pools = design.draw(rng, 256, 8, 4)
        found, whole = (law_intervals(one, trial) for one in (norms_only(pools), pools))
        assert all(found[name].value == whole[name].value for name in LAWS)
        widths += [
            [one[name].high - one[name].low for name in LAWS] for one in (found, whole)
        ]
    ratio = np.mean(widths[::2], axis=0) / np.mean(widths[1::2], axis=0)
    assert (ratio > 0.99).all()
    assert (ratio < 1.1).all()


def test_advice_needs_no_products():
    """It loses what the replicates say of ||g||^2, nearly nothing here, and no row."""
    pools = sample(blocks=2)[1]
    whole, found = (analysed(one, [4]).advise() for one in (pools, norms_only(pools)))
    assert (found.law_only, whole.law_only) == (True, False)
    assert (found.verdict, found.set_to) == (whole.verdict, whole.set_to)
    for name in ("c1", "c2", "c3", "best", "saves"):
        assert getattr(found, name) == pytest.approx(getattr(whole, name), rel=0.01)
    rows = [[price[:3] for price in one.prices] for one in (found, whole)]
    assert rows[0] == rows[1]
    assert "warning: norms only" in advice_text(found)
    assert "warning: norms only" not in advice_text(whole)
