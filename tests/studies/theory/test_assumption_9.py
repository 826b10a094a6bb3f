"""Assumption 9: the least ratio is reached on an axis, and is the curvature near by."""

import numpy as np
import pytest

from mse_lab.studies.theory.assumption_9 import judge_assumption_9, least_pull


def test_no_point_of_the_box_has_less(two):
    """At 20,000 random points of it."""
    bandit, width = two.bandit, 1.5
    away_KR = np.random.default_rng(0).uniform(-width, width, (3, 20_000))
    point = bandit.at(bandit.maximum_D[:, None] + two.directions_DK @ away_KR)
    slope_KR = two.directions_DK.T @ point.gradients_PD.mean(0)
    ratios_R = -(slope_KR * away_KR).sum(0) / (away_KR**2).sum(0) / two.curvatures_K[0]
    assert ratios_R.min() >= least_pull(two, width) * (1 - 1e-4)


def test_near_the_maximum_it_is_the_curvature(two):
    assert least_pull(two, 1e-3) == pytest.approx(1, rel=1e-3)


def test_it_holds_in_the_box_and_not_far_out(two):
    found = judge_assumption_9(two)
    assert found.verdict == "holds"
    assert found.control.caught
