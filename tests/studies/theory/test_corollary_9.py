"""Corollary 9: constant where directions are shared; elsewhere only the sum is."""

import numpy as np

from mse_lab.studies.theory.ascent import Rule
from mse_lab.studies.theory.corollary_9 import judge_corollary_9


def test_it_holds_and_its_controls_are_caught(two, six):
    findings, curves = judge_corollary_9(two, six)
    assert [one.verdict for one in findings] == ["holds"] * 3
    assert all(one.estimate.value < 1e-10 for one in findings)
    known = curves.set_index(["bandit", "weight"])["relative"]
    np.testing.assert_allclose(known["two"], 1, rtol=1e-9)
    np.testing.assert_allclose(known["six", "sum"], 1, rtol=1e-9)
    # Each weight of the other is constant in the limit alone.
    assert abs(known["six"] - 1).max() > 1e-3


def test_weights_fall_as_its_order_says(six):
    """O(G^-2): four times the size, 20 times less (16 x 15 over 4 x 3), within a tenth."""
    apart = [
        six.weights(Rule("grpo", 1, size)) - six.weights(Rule("oracle", 1, size))
        for size in (4, 16)
    ]
    np.testing.assert_allclose(apart[0] / apart[1], 20, rtol=0.1)


def test_the_wrong_bandit_fails(six):
    """The first statement needs shared directions: put to the other it is refuted."""
    findings, _ = judge_corollary_9(six, six)
    assert [one.verdict for one in findings] == ["holds", "fails", "holds"]
