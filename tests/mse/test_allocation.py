"""Allocation: the best by brute force, and what it saves, told on other completions."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from mse_lab.errors import InputError
from mse_lab.mse import allocation
from mse_lab.mse.allocation import (
    RULES,
    best_sizes,
    judge_rules,
    measure_ratios,
    prompt_mse,
)
from mse_lab.mse.moments import pool_moments
from populations import choose, population
from simulated import make_design


def brute_force(trace, zeta, budget, least):
    """The least sum over all ways to share a budget among the prompts."""
    ways = product(range(least, budget + 1), repeat=len(trace))
    sizes = np.array([way for way in ways if sum(way) == budget])
    pairs = zeta / np.maximum(sizes * (sizes - 1), 1)
    return (trace / sizes + pairs).sum(1).min()


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_no_other_allocation_is_better(seed, least):
    rng = np.random.default_rng(seed)
    trace, zeta = rng.lognormal(sigma=2, size=(2, 3)) * [[1], [least - 1]]
    for budget in (least * 3, 9, 14):
        sizes = best_sizes(trace, zeta, budget, least)
        assert sizes.sum() == budget
        assert sizes.min() >= least
        found = (trace / sizes + zeta / np.maximum(sizes * (sizes - 1), 1)).sum()
        assert found == pytest.approx(brute_force(trace, zeta, budget, least), rel=1e-12)


def test_estimates_below_zero_count_as_zero():
    assert best_sizes(np.array([-5.0, 1.0]), np.array([-1.0, 0.0]), 10).tolist() == [2, 8]


def test_a_budget_that_does_not_go_round_is_refused():
    with pytest.raises(InputError, match="5 completions is less than 2 for each of 3"):
        best_sizes(np.ones(3), np.ones(3), 5)


@pytest.fixture(scope="module")
def unlike():
    """Prompts whose scores differ by a factor of ten in length."""
    rng = np.random.default_rng(1)
    design = make_design(rng, 40)
    scale = 10 ** rng.uniform(-0.5, 0.5, size=40)
    return replace(design, score_PCD=design.score_PCD * scale[:, None, None])


@pytest.mark.parametrize("name", RULES)
def test_a_rule_spends_its_budget(unlike, name):
    moments = unlike.moments()
    for budget in (80, 327):
        rule = RULES[name]
        sizes = rule.sizes(moments, budget)
        assert sizes.sum() == budget
        assert sizes.min() >= rule.least
        best = rule._replace(plan=rule.law).sizes(moments, budget)
        found, least = (prompt_mse(moments, one, rule.law) for one in (sizes, best))
        assert found.sum() >= least.sum() * (1 - 1e-12)


def test_rules_are_what_they_are_called(unlike):
    moments = unlike.moments()
    uniform = RULES["uniform"].sizes(moments, 327)
    assert set(uniform) == {8, 9}
    outside = (moments.value < 0.2) | (moments.value > 0.8)
    assert 0 < outside.sum() < 40
    np.testing.assert_array_equal(
        RULES["accuracy filter"].sizes(moments, 327) == 2, outside
    )
    alike = replace(moments, norm2=np.ones(40), gradient2=np.zeros(40))
    alike = replace(alike, reward_norm2=alike.value, reward2_norm2=alike.value)
    by_variance = RULES["reward variance"].sizes(moments, 327)
    np.testing.assert_array_equal(by_variance, RULES["best"].sizes(alike, 327))


def test_what_is_saved_is_what_the_exact_laws_say(unlike):
    """By the plan of a long run; within four standard errors, false in 1 of 10,000."""
    pools = unlike.draw(np.random.default_rng(2), 2048, 32, 32)
    totals = allocation.judge_rules(pools, 320)
    for name in ("best", "reward variance", "accuracy filter"):
        exact = prompt_mse(unlike.moments(), RULES[name].sizes(unlike.moments(), 320))
        uniform = prompt_mse(
            unlike.moments(), RULES["uniform"].sizes(unlike.moments(), 320)
        )
        ratio = totals[name] / totals["uniform"]
        assert abs(ratio.value - exact.sum() / uniform.sum()) < 4 * ratio.error
    assert measure_ratios(totals, 0.95)["best"].high < 0.9


def test_prompts_that_are_all_alike_have_nothing_to_save():
    """Negative control, with norms so uneven that planning on their noise costs a tenth.

    Judged on the completions that it was planned on, it would seem to save as much.
    """
    rng = np.random.default_rng(0)
    one = make_design(rng, 1, (0.4, 0.6))
    uneven = rng.lognormal(size=(1, one.score_PCD.shape[1], 1))
    one = replace(one, score_PCD=uneven * one.score_PCD)
    pools = choose(one, np.zeros(200, dtype=int)).draw(rng, 512, 4, 8)
    assert measure_ratios(judge_rules(pools, 1600), 0.95)["best"].low > 1
    moments = pool_moments(pools)
    best, uniform = (RULES[name].sizes(moments, 1600) for name in ("best", "uniform"))
    seen = prompt_mse(moments, best).sum() / prompt_mse(moments, uniform).sum()
    assert seen < 0.97


def test_the_error_over_random_prompts_is_the_spread_of_samples():
    """Within a third; without the budget's part it would be twice as large."""
    rng = np.random.default_rng(0)
    design = population(rng)
    ratios, errors, apart = [], [], []
    for _ in range(100):
        moments = choose(design, rng.integers(0, design.prompts, 60)).moments()
        best, uniform = (
            allocation._judge(RULES[name], moments, moments, 480)
            for name in ("best", "uniform")
        )
        ratio = best.mean() / uniform.mean()
        plain = prompt_mse(moments, RULES["best"].sizes(moments, 480))
        ratios.append(ratio)
        for kept, each in ((errors, best), (apart, plain)):
            kept.append((each - ratio * uniform).std() / uniform.mean() / np.sqrt(60))
    assert np.mean(errors) == pytest.approx(np.std(ratios), rel=1 / 3)
    assert np.mean(apart) > 1.5 * np.std(ratios)


def test_vanilla_may_have_one_completion(unlike):
    """Its law by hand, sqrt(A - gamma) without the rounding, and no more than uniform."""
    moments = unlike.moments()
    sizes = RULES["vanilla, best"].sizes(moments, 400)
    trace = moments.reward2_norm2 - moments.gradient2
    expected = 400 * np.sqrt(trace) / np.sqrt(trace).sum()
    assert sizes.min() == 1
    assert abs(sizes - np.maximum(expected, 1)).max() < 1.5
    np.testing.assert_allclose(
        prompt_mse(moments, sizes, allocation.vanilla_law), trace / sizes
    )


@pytest.mark.parametrize("number", [1, 12])
def test_the_bias_of_dropping_prompts_is_known(unlike, number):
    """Exact on the design; four standard errors of 200 runs, false alarm 1e-4.

    For one prompt ||rbar||^2 in the place of <r_A, r_B> would be larger by far.
    """
    dropped = np.arange(40) < number
    exact = unlike.gradient_PD[dropped].sum(0) / 40
    rng = np.random.default_rng(6)
    pools = [unlike.draw(rng, 16, 1, 4) for _ in range(200)]
    found = np.array([allocation.dropped_bias2(one, dropped) for one in pools])
    assert abs(found.mean() - exact @ exact) < 4 * found.std() / np.sqrt(200)
    assert allocation.dropped_bias2(pools[0], 0 * dropped) == 0


def test_the_square_of_a_plans_value_is_unbiased():
    """V^2 less the mean's variance is the mean over pairs of different completions."""
    rng = np.random.default_rng(0)
    norms2, rewards = rng.random((2, 3, 6))
    plan = allocation.plan_moments(norms2, rewards)
    pairs = rewards[:, :, None] * rewards[:, None] * (1 - np.eye(6))
    found = plan.value**2 - plan.value_variance
    np.testing.assert_allclose(found, pairs.sum((1, 2)) / 30, rtol=1e-12)
