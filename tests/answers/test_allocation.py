"""Rollouts by prompt for a run: against brute force, and where nothing can be gained."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from claimed_runs import take
from makers import make
from mse_lab.answers.allocation import allocate
from mse_lab.errors import InputError
from mse_lab.mse.allocation import FILTERED, RULES, prompt_mse
from mse_lab.mse.moments import pool_moments
from mse_lab.report.allocation_report import allocation_text
from populations import choose
from simulated import analysed, make_design


def run_on(design, seed=0, reference=512, blocks=4, largest=16):
    pools = design.draw(np.random.default_rng(seed), reference, blocks, largest)
    return analysed(pools, [4])


@pytest.fixture(scope="module")
def unlike():
    """A run on prompts whose scores differ in length by up to ten times, and its truth."""
    rng = np.random.default_rng(1)
    design = make_design(rng, 40)
    scale = 10 ** rng.uniform(-0.5, 0.5, size=(40, 1, 1))
    design = replace(design, score_PCD=design.score_PCD * scale)
    return run_on(design), design


def test_the_sizes_are_the_best_by_brute_force():
    """Of the run's own moments, by every way to share 13 among four prompts."""
    run = run_on(take(make("many right answers"), 4))
    found, moments = allocate(run, 13), pool_moments(run.pools)
    for name in ("best", "vanilla, best"):
        rule = RULES[name]
        ways = product(range(rule.least, 14), repeat=4)
        least = min(
            prompt_mse(moments, np.array(way), rule.law).sum()
            for way in ways
            if sum(way) == 13
        )
        mse = prompt_mse(moments, found.sizes[name], rule.law).sum()
        assert mse == pytest.approx(least, rel=1e-12)


def test_every_rule_spends_the_budget(unlike):
    found = allocate(unlike[0], 327)
    assert {*found.sizes} == {*RULES}
    assert all(one.sum() == 327 for one in found.sizes.values())
    assert {*found.ratios} == {*RULES} - {"uniform"}


def test_what_is_saved_is_in_the_intervals(unlike):
    """Of the exact laws at the sizes, within them; without a baseline, too."""
    run, design = unlike
    found, moments = allocate(run, 320), design.moments()
    uniform = prompt_mse(moments, found.sizes["uniform"]).sum()
    for name, ratio in found.ratios.items():
        exact = prompt_mse(moments, found.sizes[name], RULES[name].law).sum() / uniform
        assert ratio.low < exact < ratio.high, name
    assert found.ratios["best"].high < 1


def test_nothing_is_gained_on_prompts_that_are_all_alike():
    one = make_design(np.random.default_rng(0), 1, (0.4, 0.6))
    found = allocate(run_on(choose(one, np.zeros(80, dtype=int))), 640)
    assert found.ratios["best"].high > 1
    assert found.ratios["best"].value > 0.995


def test_the_default_is_the_recommended_size_for_each(unlike):
    run = unlike[0]
    found = allocate(run)
    assert found.budget % 40 == 0
    assert found.budget // 40 in (2, 4, 8, 16, 32, 64, 128, 256)
    assert allocate(run, found.budget).ratios == found.ratios


def test_the_bias_of_dropping_is_told_in_the_uniform_error(unlike):
    """Within a factor of two of the exact one, at two budgets."""
    run, design = unlike
    outside = (run.moments.value < 0.2) | (run.moments.value > 0.8)
    bias = (design.gradient_PD[outside].sum(0) / 40) @ design.gradient_PD[outside].sum(0)
    found = [allocate(run, budget) for budget in (160, 640)]
    for one in found:
        assert one.outside == outside.sum() > 0
        error = prompt_mse(design.moments(), one.sizes["uniform"]).sum() / 40**2
        assert 0.5 < one.bias / (bias / 40 / error) < 2
    assert found[1].bias > 3 * found[0].bias


@pytest.mark.parametrize("budget", [79, 40 * 256 + 1])
def test_a_budget_out_of_reach_is_refused(unlike, budget):
    with pytest.raises(InputError, match="give from 80 to 10240 completions, 2 to 256"):
        allocate(unlike[0], budget)


def test_a_run_without_a_signal_is_refused():
    design = make_design(np.random.default_rng(0), 5)
    never = replace(design, reward_PC=0 * design.reward_PC)
    with pytest.raises(InputError, match="all equal"):
        allocate(run_on(never), 20)
    with pytest.raises(InputError, match="one prompt: nothing to allocate"):
        allocate(run_on(take(design, 1)), 20)


def test_rewards_that_are_no_accuracies_are_not_filtered_by_them():
    run = run_on(make_design(np.random.default_rng(0), 5))
    rewards = (2 * run.pools.rewards_PN - 1, 2 * run.pools.reference_rewards_PN - 1)
    pools = replace(run.pools, rewards_PN=rewards[0], reference_rewards_PN=rewards[1])
    found = allocate(analysed(pools, [4]), 40)
    assert {*found.sizes} == {*RULES} - {FILTERED}
    assert (found.outside, found.bias) == (0, 0)
    assert "filter" not in allocation_text(found)


def test_two_prompts_can_share_a_budget_and_one_cannot():
    design = make_design(np.random.default_rng(0), 2)
    assert allocate(run_on(design), 16).budget == 16
    with pytest.raises(InputError, match="one prompt: nothing to allocate"):
        allocate(run_on(take(design, 1)), 16)
