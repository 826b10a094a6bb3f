"""Theorem 8: the test has its level, knows other weights, and passes real runs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mse_lab.studies.theory.ascent import Rule
from mse_lab.studies.theory.findings import LEVEL
from mse_lab.studies.theory.noise import ESTIMATORS
from mse_lab.studies.theory.theorem_8 import (
    distance_from,
    judge_crossed_noise,
    judge_law,
    judge_theorem_8,
)

RULE = Rule("grpo", 2, 3)


def mixtures(weights, *shape):
    return np.random.default_rng(0).chisquare(1, (*shape, len(weights))) @ weights


def test_the_test_rejects_at_its_level_and_its_interval_covers(two):
    """400 samples of 300 from the true law, whose D is 0: all binomial, three in 10^4."""
    weights = two.weights(RULE)
    found = [distance_from(one, weights) for one in mixtures(weights, 400, 300)]
    for threshold in (0.05, 0.2):
        rejected = sum(p < threshold for _, p in found)
        assert stats.binomtest(rejected, 400, threshold).pvalue > 1e-4
    missed = sum(estimate.low > 0 for estimate, _ in found)
    assert stats.binomtest(missed, 400, 1 - LEVEL, "greater").pvalue > 1e-4


def test_the_law_of_another_estimator_fails(two):
    """With draws of the mixture itself: its own holds, a law three times as wide fails."""
    drawn = mixtures(two.weights(RULE), 4000)
    assert judge_law(two, RULE, drawn, "").verdict == "holds"
    assert judge_law(two, RULE, 3 * drawn, "").verdict == "fails"
    # Nothing tells these two apart: the control is not caught, so nothing is said.
    huge = Rule("grpo", 2, 500)
    assert (
        judge_law(two, huge, mixtures(two.weights(huge), 4000), "").verdict == "undecided"
    )


def test_runs_have_the_limit_law(two, few):
    findings, curves = judge_theorem_8(two, replace(few, runs=1200, steps=(20, 300)))
    found = {one.statement: one for one in findings}
    assert all(one.control.caught for one in findings if one.control)
    for estimator in ESTIMATORS:
        name = f"Theorem 8, {estimator}, n = "
        assert found[f"{name}20"].estimate.value > found[f"{name}300"].estimate.value
        assert found[f"{name}300"].estimate.value < 0.05
    assert found["Theorem 8, mean, beta^2 in Sigma"].verdict == "holds"
    printed = found["Theorem 8, mean, Sigma as printed"]
    assert printed.verdict == "fails"
    assert 0.9 < printed.estimate.value / two.beta**2 < 1.1
    assert set(curves["steps"]) == {20, 300}
    last = curves[curves["steps"] == 300]
    assert abs(last["runs"] - last["limit"]).max() < 0.06


def test_noise_between_directions_is_seen(cross, few):
    """The diagonal of Sigma alone is refuted; `two` has none beside it."""
    found = judge_crossed_noise(cross, replace(few, runs=800, steps=(400, 0)))
    assert found.estimate.low == 0
    assert found.control.caught
    for rule in (RULE, Rule("vanilla", 2, 3)):
        apart = cross.diagonal_weights(rule) - cross.weights(rule)
        assert apart.sum() == pytest.approx(0, abs=1e-12)
        assert abs(apart).max() > 0.3 * cross.weights(rule).max()
