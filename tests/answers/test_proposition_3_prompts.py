"""Proposition 3: what prompts drawn at random add."""

from types import SimpleNamespace

import numpy as np
import pytest

from claimed_runs import PROMPTS, draw, evidence_of, make_design, take
from mse_lab.answers.proposition_3_prompts import _draw_sets, _measure, judge_random_prompts
from mse_lab.mse.budget import Population
from mse_lab.mse.intervals import Statistic
from mse_lab.mse.replicates import Key


def test_spread_of_random_prompts_is_c1():
    """(1/P) sum_x ||g(x) - gbar||^2 of the finite run is c1 (P-1)/P, exactly."""
    pools = draw("fair").pools
    products = pools.gradient_products_PP
    spread = np.trace(products) / PROMPTS - products.mean()
    expected = Population(pools).constants.c1[0] * (PROMPTS - 1) / PROMPTS
    assert spread == pytest.approx(expected, rel=1e-12)


def test_proposition_3_of_three_prompts():
    """Drawn from three prompts, gradients spread by two thirds of c1, most of the MSE.

    The ratio's standard error is 0.03; with all of c1 it would be 0.7.
    """
    design = take(make_design((0.4, 0.6), signal=0.39), 3)
    pools = design.draw(np.random.default_rng(4), 2**15, 64, 64)
    claims = judge_random_prompts(evidence_of("three", pools, (64,)))
    assert {one.verdict for one in claims} == {"holds"}
    assert abs(claims[0].estimate.value - 1) < 0.15


def test_groups_are_drawn_apart_from_their_prompts_and_anew_for_each_size():
    """As many groups as prompts: the same draws would always meet a prompt's own number."""
    errors_PR, run = np.eye(16), SimpleNamespace(seed=0, name="run")
    run.compared_errors = {Key("grpo", size): errors_PR for size in (4, 8)}
    run.mse_of, run.pools = lambda *_: Statistic(0.0, {}, {}), SimpleNamespace(prompts=16)
    run.pools.gradient_products_PP = np.zeros((16, 16))
    drawn = _draw_sets(run, 4)
    few, many = (_measure(run, drawn, size).value for size in (4, 8))
    # Of 16,000 groups: four standard errors.
    assert few == pytest.approx(1 / 16, abs=0.008)
    assert few != many
