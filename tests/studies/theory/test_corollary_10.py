"""Corollary 10: the trace identity at a maximum, and that its condition is empty there."""

import numpy as np
import pytest

from mse_lab.studies.theory.corollary_10 import _verdict, judge_corollary_10


def test_the_condition_is_empty_and_the_conclusion_false(limit):
    trace, conclusion = judge_corollary_10("", limit)
    assert (trace.verdict, conclusion.verdict) == ("holds", "premise fails")
    assert trace.control.caught
    assert conclusion.estimate.value < 0.9


@pytest.mark.parametrize(
    ("best_to_oracle", "premise", "verdict"),
    [
        (1.0, -0.1, "holds"),
        (1.1, 0.0, "holds"),
        (0.8, -0.1, "premise fails"),
        (0.8, 0.1, "premise fails"),
        (0.8, 0.0, "fails"),
    ],
)
def test_a_false_conclusion_refutes_it_where_its_premise_holds(
    best_to_oracle, premise, verdict
):
    assert _verdict(best_to_oracle, premise) == verdict


def test_prompts_of_two_right_nine_times_in_ten_give_the_trace_by_hand(two):
    """b* = 1 - p and S = 2 p (1-p) q'q... of one direction: mean p(1-p)(1-2p)."""
    right = np.array([0.79, 0.7, 0.65])
    found = np.trace(two.bandit.peak.hessian_DD)
    assert np.isclose(found, (right * (1 - right) * (1 - 2 * right)).mean())
