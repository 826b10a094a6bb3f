"""Proposition 13: which objective standardised rewards ascend, which KL is descended."""

from math import comb

import numpy as np
import pytest

from mse_lab.studies.theory.proposition_13 import judge_proposition_13, slope_of


def test_it_holds_and_its_controls_are_caught(six):
    findings = judge_proposition_13(six.bandit, six.bandit.maximum_D + 0.8)
    verdicts = [one.verdict for one in findings]
    assert verdicts == ["holds", "holds", "fails", "holds"]


def test_a_small_group_of_rare_answers_by_listing_its_counts(six):
    """E[sum of leave-one-out advantages of right ones / sd] / (G V) against 1/sd(Z).

    W g / ||g||^2 has the mean 1/V of right and -1/(1-V) of wrong completions.
    """
    rare, size, slope = 0.02, 8, 0.0
    for count in range(1, size):
        share = count / size
        deviation = np.sqrt(size / (size - 1) * share * (1 - share))
        right, wrong = ((one - share) * size / (size - 1) / deviation for one in (1, 0))
        chance = comb(size, count) * rare**count * (1 - rare) ** (size - count)
        slope += chance * (share * right / rare - (1 - share) * wrong / (1 - rare))
    found = judge_proposition_13(six.bandit, six.bandit.maximum_D + 0.8)[2]
    assert found.estimate.value == pytest.approx(
        slope * np.sqrt(rare * (1 - rare)), rel=1e-4
    )
    assert 0.3 < found.estimate.value < 0.4


def test_slopes_are_those_of_a_cubic():
    """D (x^2 y) = (2 x y, x^2) at (3, 2)."""
    found = slope_of(lambda theta: theta[0] ** 2 * theta[1], np.array([3.0, 2.0]))
    np.testing.assert_allclose(found, [12, 9], rtol=1e-9)
