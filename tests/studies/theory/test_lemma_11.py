"""Lemma 11: the mean by listing groups, and the covariance in the limit."""

from itertools import product

import numpy as np
import pytest

from mse_lab.estimators import find_estimator
from mse_lab.mse.laws import find_law
from mse_lab.studies.theory.lemma_11 import (
    PLAIN,
    TRL,
    VALUES,
    judge_lemma_11,
    linear_trace,
    slopes,
    standardised,
)


def mean_by_listing(six, eps, ddof, loo):
    """Mean over all groups of 3 of the first prompt's 6 completions, as a share of g."""
    point, size = six.bandit.at(six.bandit.maximum_D + 0.8), 3
    total = 0.0
    for group in product(range(6), repeat=size):
        rewards = point.rewards_PK[0][list(group)]
        chance = point.probabilities_PK[0][list(group)].prod()
        if rewards.std() > 0:
            apart = (rewards - rewards.mean()) * (size / (size - 1) if loo else 1)
            weights = apart / (rewards.std(ddof=ddof) + eps)
            total = total + chance * weights @ point.scores_PKD[0][list(group)] / size
    return total, point.gradients_PD[0], point.value_P[:1]


@pytest.mark.parametrize(
    ("estimator", "eps", "ddof", "loo"),
    [(*key, *rest) for key, rest in zip(
        [(find_estimator("grpo-loo-std"),), (TRL,),
         (find_estimator({"name": "grpo-std", "ddof": 0}),)],
        [(0, 1, True), (1e-4, 1, False), (0, 0, False)], strict=True)],
    ids=["paper", "TRL", "by G"],
)  # fmt: skip
def test_slopes_by_listing_all_groups(six, estimator, eps, ddof, loo):
    mean_D, gradient_D, value = mean_by_listing(six, eps, ddof, loo)
    expected = slopes(estimator, 3, value)[0] * gradient_D
    np.testing.assert_allclose(mean_D, expected, rtol=1e-10, atol=1e-12)


def test_it_holds_and_its_controls_are_caught(six):
    findings, tables = judge_lemma_11(six.bandit, six.bandit.maximum_D + 0.8)
    assert [one.verdict for one in findings] == ["holds"] * 4
    assert all(one.control is None or one.control.caught for one in findings)
    assert len(tables["standardised"]) == 5 * 5 * 5


def test_the_table_says_how_far_each_is_from_its_target():
    table = standardised().set_index(["estimator", "group_size", "value"])
    sd = np.sqrt(0.1 * 0.9)
    row, mean = table.loc["grpo-std", 8, 0.1], slopes(next(iter(PLAIN)), 8, VALUES[1:2])
    assert row["bias"] == pytest.approx(7 / 8 * mean[0] - 1 / sd)
    assert row["relative"] == pytest.approx(row["bias"] * sd)


def test_the_covariance_comes_to_its_first_order_like_one_over_g(six):
    point = six.bandit.at(six.bandit.maximum_D + 0.8)
    off, [paper, *_] = [], PLAIN
    for size in (128, 512):
        second, slope, _ = find_law(paper, size, binary=True)(point.moments)
        trace = size * (second - slope**2 * point.moments.gradient2)
        off.append(trace / linear_trace(point) - 1)
    np.testing.assert_allclose(off[0] / off[1], 4, rtol=0.15)
    assert (np.abs(off[1]) < 0.01).all()
