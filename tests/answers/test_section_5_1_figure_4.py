"""Section 5.1: each observation on data that have it, and on data that do not."""

from claimed_runs import by_size, draw, scores_that_agree_in_large_groups, verdicts
from mse_lab.answers.section_5_1_figure_4 import judge_observations, judge_order_of_runs


def test_observations_hold():
    fair, loud = (verdicts(judge_observations(draw(kind))) for kind in ("fair", "loud"))
    assert fair["Section 5.1 (vanilla largest)"] == "holds"
    assert fair["Section 5.1 (falls with G)"] == "holds"
    assert loud["Section 5.1 (near the oracle at G = 8)"] == "holds"
    assert fair["Section 5.1 (the oracle's at G = 32 and 64)"] != "fails"


def test_observations_fail():
    fair, quiet = (verdicts(judge_observations(draw(kind))) for kind in ("fair", "quiet"))
    assert quiet["Section 5.1 (vanilla largest)"] == "fails"
    # Under Assumption 2 the ratio at G = 8 is above 1.14.
    assert fair["Section 5.1 (near the oracle at G = 8)"] == "fails"
    rising = judge_observations(scores_that_agree_in_large_groups(draw("fair")))
    assert verdicts(rising)["Section 5.1 (falls with G)"] == "fails"


def test_near_the_oracle_is_judged_at_both_sizes():
    claims = judge_observations(draw("fair"))
    assert {*by_size(claims, "Section 5.1 (the oracle's at G = 32 and 64)")} == {32, 64}


def test_order_of_runs():
    large, small = draw("fair"), draw("small", seed=2)
    statement = "Section 5.1 (falls from run to run)"
    assert verdicts(judge_order_of_runs([large, small])) == {statement: "holds"}
    assert verdicts(judge_order_of_runs([small, large])) == {statement: "fails"}
    assert judge_order_of_runs([large]) == []


def test_two_runs_of_one_policy_are_undecided():
    """False alarm 1%: the two differ in nothing but chance."""
    [found] = verdicts(judge_order_of_runs([draw("fair"), draw("fair", seed=2)])).values()
    assert found == "undecided"
