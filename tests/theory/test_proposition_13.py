"""Proposition 13: which objective standardised rewards ascend, which KL is descended."""

import numpy as np

from mse_lab.theory.proposition_13 import judge_proposition_13, slope_of


def test_it_holds_and_its_controls_are_caught(six):
    findings = judge_proposition_13(six.bandit, six.bandit.maximum_D + 0.8)
    verdicts = [one.verdict for one in findings]
    assert verdicts == ["holds", "holds", "holds", "undecided"]
    assert findings[-1].protocol.startswith("not tested")


def test_slopes_are_those_of_a_cubic():
    """D (x^2 y) = (2 x y, x^2) at (3, 2)."""
    found = slope_of(lambda theta: theta[0] ** 2 * theta[1], np.array([3.0, 2.0]))
    np.testing.assert_allclose(found, [12, 9], rtol=1e-9)
