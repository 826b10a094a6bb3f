"""Warnings: one for each way to measure nothing, none of an honest run."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mse.test_curves import SIZES, curves_of
from mse.test_reference_noise import independent_design
from mse_lab.mse.curves import measure_curves
from mse_lab.mse.replicates import Key, measure_errors
from mse_lab.results import warnings
from mse_lab.results.diagnostics import EndToken
from mse_lab.results.warnings import warn_of_completions, warn_of_disagreement
from results.test_diagnostics import HEALTHY
from simulated import analysed, make_design, make_pools


@pytest.mark.parametrize("signal", [False, True])
def test_gradient_is_told_from_zero_where_there_is_one(signal):
    rng = np.random.default_rng(3)
    design = make_design(rng, 20) if signal else independent_design(rng, 20)
    pools = design.draw(rng, 256, 4, 8)
    assert any("of zero" in one for one in analysed(pools, [8]).warnings) == (not signal)
    # One prompt of the 20 whose reward is always the same changes nothing; all do.
    rewards_PN = pools.reference_rewards_PN * (np.arange(20) > 0)[:, None]
    one = replace(pools, reference_rewards_PN=rewards_PN)
    assert bool(warnings.warn_of_weak_gradient(one)) == (not signal)
    every = replace(pools, reference_rewards_PN=0 * rewards_PN)
    assert not warnings.warn_of_weak_gradient(every)


def test_a_reference_that_is_too_small_for_a_bias_is_said():
    """At G = 16 the law of maxrl needs 19 completions: its cells are empty."""
    design = make_design(np.random.default_rng(4), 6)
    for reference, cells in ((18, 1), (20, 0)):
        pools = design.draw(np.random.default_rng(5), reference, 2, 16)
        found = analysed(pools, [4, 16], estimators=("grpo", "maxrl"))
        [*said] = (one for one in found.warnings if "give pool.reference=20" in one)
        assert len(said) == found.mse["mse"].isna().sum() == cells


def warn_of_degrees(pools, degrees):
    """What is said of GRPO-type at G = 4 whose spread has so many degrees of freedom."""
    number = SimpleNamespace(spread=SimpleNamespace(degrees=degrees))
    curve = SimpleNamespace(statistic=lambda: number)
    return warnings.warn_of_few_degrees(pools, {Key("grpo", 4): (curve, None)})


def test_the_pool_that_would_do_by_hand(monkeypatch):
    """Two degrees by 4 groups; five by 7/4 * 5 - 1 = 7.75 groups of 4, so 4 blocks of 8."""
    monkeypatch.setattr(warnings, "_degrees_by_law", lambda pools, key: 100.0)
    [said] = warn_of_degrees(make_pools(3, 16, 2, 8), 2.0)
    assert said.endswith("or pool.replicate=32")


def test_the_degrees_of_one_prompt_by_its_law():
    """All is carried by one prompt; its 4 groups have 1 * (4 + 1) - 2 degrees."""
    pools = make_pools(1, 16, 2, 8)
    [said] = warn_of_degrees(pools, 100.0)
    assert "(3, grpo at G = 4)" in said
    assert warnings.warn_of_few_degrees(pools, {}) == []


CUT = (EndToken(2, "<end>", 0.4),)
SILENT = (EndToken(2, "<end>", 0.0),)
MEANINGLESS = {
    "given up": ({"given_up": 3}, "3 comparisons with the answer took too long"),
    "truncated": ({"truncated": 0.6, "end_tokens": CUT}, "60% of the completions were cut"),
    "no end": ({"truncated": 1.0, "end_tokens": SILENT}, "(known: <end> (2))"),
    "no end known": ({"truncated": 1.0, "end_tokens": ()}, "(known: none)"),
    "few carry it": ({"one_reward": 0.9}, "by the other 6 of 60"),
    "one reward": ({"one_reward": 1.0, "mean_reward": 0.0}, "one reward, on average 0:"),
    "identical": ({"commonest": 0.95}, "95% of them on average"),
    "empty": ({"empty": 0.8, "commonest": 0.8}, "80% of the completions are empty"),
}


@pytest.mark.parametrize("case", MEANINGLESS)
def test_warning(case):
    changes, message = MEANINGLESS[case]
    warnings = [*warn_of_completions(replace(HEALTHY, **changes))]
    assert len(warnings) == 1
    assert message in warnings[0]


def test_no_warning_of_a_healthy_run():
    assert not [*warn_of_completions(HEALTHY)]


@pytest.mark.parametrize("name", ["grpo", "grpo-std"])
def test_agreement_and_its_failure(name):
    """No warning on honest pools of 20 runs; one when the Gram blocks are off by 15%."""
    rng = np.random.default_rng(2)
    design = make_design(rng)
    for _ in range(20):
        pools = design.draw(rng, 256, 4, 16)
        curves, estimators, errors = curves_of(pools, [name])
        found = measure_curves(curves, estimators, errors)
        assert not warn_of_disagreement(found)
    broken = replace(pools, products_PN=pools.products_PN * 0)
    errors = measure_errors(broken, estimators, SIZES)
    found = measure_curves(curves, estimators, errors)
    warnings = warn_of_disagreement(found)
    assert any(line.startswith(name) for line in warnings)


@pytest.mark.parametrize(("p_value", "warned"), [(5e-5, 0), (3e-5, 3)])
def test_a_disagreement_is_told_family_wise(monkeypatch, p_value, warned):
    """1e-4 over three comparisons is 3.3e-5 each."""
    curve = SimpleNamespace(point=SimpleNamespace(mse=1.0))
    points = {Key("grpo", size): (curve, curve) for size in (2, 4, 8)}
    monkeypatch.setattr(warnings, "disagreement", lambda *_: p_value)
    assert len(warn_of_disagreement(points)) == warned
