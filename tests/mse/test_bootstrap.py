"""The bootstrap against the closed form, by enumeration, and its place in the analysis."""

from dataclasses import replace

import numpy as np
import pytest

from mse.test_prompt_table import make_table
from mse_lab import analyse
from mse_lab.mse.intervals import Bootstrap, Statistic, percentiles
from mse_lab.mse.prompt_table import PromptSamples
from simulated import make_design

BOOTSTRAP = Bootstrap(20000, 1)


def test_draws_of_groups_have_the_variance_without_bias():
    """sum_x s_x^2 / R, to four standard errors of a variance of 20,000 draws: 4%."""
    groups_PR = np.random.default_rng(0).lognormal(size=(5, 4))
    drawn = BOOTSTRAP.shift_of_groups({"run": groups_PR})
    assert drawn.var() == pytest.approx((groups_PR.var(-1, ddof=1) / 4).sum(), rel=0.06)
    assert abs(drawn.mean()) < 4 * drawn.std() / np.sqrt(20000)


def test_draws_of_prompts_have_the_variance_without_bias():
    """s^2 / P of a mean over prompts, to four standard errors of 20,000 draws."""
    value_P = np.random.default_rng(0).lognormal(size=4)
    drawn = PromptSamples(BOOTSTRAP.count_prompts(4)).means(value_P)[5:]
    assert drawn.var() == pytest.approx(value_P.var(ddof=1) / 4, rel=0.06)


def test_groups_of_one_run_stay_paired():
    """What two numbers of the same groups have in common cancels in every draw."""
    groups_PR = np.random.default_rng(0).lognormal(size=(5, 4))
    one = Statistic(2.0, {"run": groups_PR}, {}, bootstrap=BOOTSTRAP)
    ratio = ((one * 3.0) / one).interval(0.95)
    assert ratio == pytest.approx((3, 3, 3))
    assert one.interval(0.95).low < 2 < one.interval(0.95).high
    plain = replace(one, bootstrap=None)
    assert (plain + one).bootstrap is (one + plain).bootstrap is BOOTSTRAP


def test_intervals_over_prompts_hold_the_estimate_and_repeat():
    """They depend on the seed alone, and lie about as wide as the closed form's."""
    plain = make_table(40)
    drawn = replace(plain, bootstrap=Bootstrap(4000, 0))
    for name in ("c1", "c2", "c3", "gradient2"):
        closed, own = plain.constant(name, 0.95), drawn.constant(name, 0.95)
        assert own.value == pytest.approx(closed.value)
        assert own.low < own.value < own.high
        width = np.log((own.high - own.low) / (closed.high - closed.low))
        assert abs(width) < 0.5, name
    again = replace(plain, bootstrap=Bootstrap(4000, 0))
    assert again.best_group_size(0.95) == drawn.best_group_size(0.95)
    other = replace(plain, bootstrap=Bootstrap(4000, 1))
    assert other.best_group_size(0.95) != drawn.best_group_size(0.95)


def test_percentiles_count_draws_without_bound():
    assert percentiles(np.array([1.0, np.inf, np.nan, 2.0]), 0.5) == (1.0, np.inf)


def test_the_analysis_takes_it_by_name():
    """Same values, other ends, the same bytes again; another name is refused."""
    pools = make_design(np.random.default_rng(3), 12).draw(
        np.random.default_rng(4), 64, 4, 8
    )
    given = {"group_sizes": [4, 8], "resamples": 300}
    closed, drawn, again = (
        analyse(vars(pools), **given, **more).mse
        for more in ({}, {"method": "bootstrap"}, {"method": "bootstrap"})
    )
    assert drawn.to_csv() == again.to_csv()
    for column in ("mse", "law", "ratio"):
        assert (drawn[column].dropna() == closed[column].dropna()).all()
        ends = closed[f"{column}_low"].to_numpy(), drawn[f"{column}_low"].to_numpy()
        varies = ~np.isnan(ends[0]) & (closed["estimator"] != "oracle").to_numpy()
        assert varies.any()
        assert (ends[0][varies] != ends[1][varies]).all()
