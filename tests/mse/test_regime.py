"""Regimes: each inequality on enumerated policies, on both sides of its line."""

from dataclasses import replace
from math import isnan

import numpy as np
import pytest
from scipy import stats

from enumerated import random_enumerated
from mse_lab.estimators import ESTIMATORS
from mse_lab.mse import regime
from mse_lab.mse.laws import LAWS
from mse_lab.mse.moments import Moments
from simulated import make_design

BINARY, GRADED = (1.0, 0.0, 1.0, 0.0), (0.9, -0.4, 0.2, -0.1)
SIZE = 3


def policies(rewards, count=40):
    """Policies whose scores of right completions are shrunk, more and more."""
    for seed in range(count):
        one = random_enumerated(np.random.default_rng(seed), rewards=rewards)
        shrunk_PC = np.where(one.reward_PC > 0, 0.2 + seed / count, 1.0)
        score_PCD = shrunk_PC[..., None] * one.score_PCD
        yield replace(one, score_PCD=score_PCD - one.probability_PC @ score_PCD)


def mse(policy, name):
    return policy.mse(ESTIMATORS[name], SIZE)


@pytest.mark.parametrize("rewards", [BINARY, GRADED], ids=["binary", "graded"])
def test_the_oracle_gains_where_the_best_baseline_is_nearer_to_the_value(rewards):
    sides = []
    for policy in policies(rewards):
        moments = policy.moments()
        lost = SIZE * (mse(policy, "vanilla") - mse(policy, "oracle"))
        assert regime.oracle_gain(moments) == pytest.approx(lost, rel=1e-9)
        best = moments.best_baseline
        assert (abs(best - moments.value) < abs(best)) == (lost > 0)
        sides.append(lost > 0)
    assert 0 < sum(sides) < len(sides)


@pytest.mark.parametrize("size", [2, 4, 8, 64])
def test_on_the_line_of_a_group_size_vanilla_and_grpo_are_equal(size):
    """Where ||g||^2 is left out: with S = 1."""
    value = np.linspace(0.1, 0.9, 9)
    best, one = regime.equal_baseline(value, size), np.ones(9)
    moments = Moments(one, best, best, value, value * (1 - value), 0 * one)
    np.testing.assert_allclose(
        LAWS["vanilla"](moments, size), LAWS["grpo"](moments, size), rtol=1e-12
    )


def test_rho_and_the_best_baseline_give_each_other():
    value, best = np.full(4, 0.3), np.array([0.0, 0.1, 0.3, 1.0])
    rho = regime.norm_ratio(best, value)
    assert rho[2] == pytest.approx(1)
    one = np.ones(4)
    moments = Moments(one, 0.2 * one, one, value, one, one)
    rows = np.stack([rho, rho, np.full(4, np.nan)], axis=-1)
    found = regime.measured_baselines(moments, rows)
    np.testing.assert_allclose(found[:, 0], best, atol=1e-15)
    np.testing.assert_allclose(found[:, 1], best, atol=1e-15)
    assert np.isnan(found[:, 2]).all()
    alone = regime.measured_baselines(moments, np.full((4, 3), np.nan))
    np.testing.assert_array_equal(alone, [[0.2, np.nan, np.nan]] * 4)
    certain = np.array([0.0, 1.0])
    assert np.isnan(regime.norm_ratio(certain, certain)).all()


def test_an_aggregate_lies_on_the_side_of_its_sum():
    """V S (2 b* - V) there is the mean of the prompts' gains, V's noise included."""
    moments = make_design(np.random.default_rng(0), 30).moments()
    moments = replace(moments, value_variance=0.01 * moments.variance)
    value, best = regime.aggregate_place(moments)
    mean_norm2 = moments.norm2.mean()
    np.testing.assert_allclose(
        value * mean_norm2 * (2 * best - value), regime.oracle_gain(moments).mean()
    )
    nothing = Moments(*np.zeros((6, 3)))
    assert all(map(isnan, regime.aggregate_place(nothing)))


def test_the_interval_of_rho_covers_at_its_level():
    """Binomial at 0.999; where five or more are right and five or more wrong."""
    rng, hits = np.random.default_rng(3), []
    for _ in range(10):
        design = make_design(rng, 60, (0.05, 0.95))
        moments = design.moments()
        true = regime.norm_ratio(moments.best_baseline, moments.value)
        scores, rewards = design.completions(design.pick(rng, 128))
        norms2, few = (scores**2).sum(-1), np.minimum(rewards.sum(1), 128 - rewards.sum(1))
        for x in np.flatnonzero(few >= 5):
            found = regime.measure_norm_ratio(norms2[x], rewards[x], 0.9)
            hits.append(found.low <= true[x] <= found.high)
    assert len(hits) > 500
    assert stats.binomtest(sum(hits), len(hits), 0.9).pvalue > 0.001


def test_a_few_of_heavy_tails_vary_as_the_others_do():
    """Six right of 120, all norms log-normal(1.6): held by 93%, by Welch's interval 82%."""
    normals_RN = np.random.default_rng(4).standard_normal((300, 120))
    hits, rewards = 0, np.arange(120) < 6
    for norms2 in np.exp(1.6 * normals_RN):
        found = regime.measure_norm_ratio(norms2, rewards, 0.95)
        hits += found.low <= 1 <= found.high
    assert hits / 300 > 0.9


def test_a_few_borrow_more_spread_by_hand():
    """Relative variances of 1/2, on one degree, and 1: (1/2 + 5) / 6; never less."""
    few = np.array([1.0, 3.0])
    wider = 2 * np.sqrt((0.5 + 5) / 6 / 2)
    found = regime._borrow_spread(few, np.array([0.0, 2.0, 0.0, 2.0]))
    np.testing.assert_allclose(found, [2 - wider, 2 + wider])
    np.testing.assert_allclose(regime._borrow_spread(few, np.array([4.0, 5.0])), few)


@pytest.mark.parametrize(
    ("norms2", "rewards", "expected"),
    [
        ([1, 2, 3, 4], [0, 0, 0, 0], np.nan),
        ([1, 2, 3, 4], [1, 1, 1, 1], np.nan),
        ([1, 2, 3, 4], [1, 0, 0, 0], 1 / 3),
        ([1, 2, 3, 4], [1, 1, 1, 0], 1 / 2),
        ([1, 2, 0, 0], [1, 1, 0, 0], np.nan),
    ],
    ids=["none right", "none wrong", "one right", "one wrong", "wrong without a score"],
)
def test_too_few_right_or_wrong_completions(norms2, rewards, expected):
    found = regime.measure_norm_ratio(np.array(norms2, float), np.array(rewards), 0.95)
    np.testing.assert_allclose(found, (expected, np.nan, np.nan))


def test_an_end_that_no_table_can_hold_is_unknown():
    """Student's tail at one degree and 0.9995 is 1273 standard errors."""
    norms2, rewards = np.array([[1.0, 9, 4, 4], [1, 1, 0, 0]])
    known, unknown = (
        regime.measure_norm_ratio(norms2, rewards, level) for level in (0.9, 0.9995)
    )
    assert 0 < known.low < known.value < known.high
    assert unknown.value == known.value == pytest.approx(5 / 4)
    assert np.isnan(unknown[1:]).all()
