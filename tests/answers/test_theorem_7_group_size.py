"""Theorem 7: the best group size, where there is one."""

import re

import numpy as np

from claimed_runs import DESIGNS, draw, scores_that_agree_in_large_groups, verdicts
from mse_lab.answers.theorem_7_group_size import judge_best_group_size


def test_theorem_7():
    best, free = "Theorem 7 (best group size)", "Theorem 7 (independent of N)"
    claims = judge_best_group_size(draw("fair", sizes=(2, 4, 8, 16, 32, 64)))
    assert verdicts(claims) == {best: "holds", free: "holds"}
    design = DESIGNS["fair"]
    spread = design.gradient_PD.var(0, ddof=1).sum()
    [low, high] = next(claim.estimate[1:] for claim in claims if claim.statement == best)
    assert low < 1 + np.sqrt(design.moments().zeta.mean() / spread) < high
    # GRPO-type's weights sum to zero, so what groups have in common lowers its error.
    wrong = judge_best_group_size(scores_that_agree_in_large_groups(draw("fair")))
    assert verdicts(wrong)[best] == "fails"


def test_theorem_7_needs_sizes_on_both_sides():
    """A minimum at the edge of the sizes is none that was seen."""
    [whole, *_] = judge_best_group_size(draw("fair", sizes=(16, 32, 64)))
    assert whole.verdict == "undecided"
    assert "no group sizes on both sides" in whole.reason


def test_theorem_7_without_spread_has_no_upper_bound():
    claims = judge_best_group_size(draw("common"))
    assert set(verdicts(claims).values()) == {"undecided"}
    assert "no upper bound here" in claims[0].reason


def test_the_best_sizes_at_three_budgets_are_told():
    """Of G = 3 and 15, none divides 256, 1,024 or 4,096."""
    told = judge_best_group_size(draw("fair", sizes=(4, 8)))[-1]
    assert re.fullmatch(
        r"best measured G \d at N = 256, \d at N = 1024, \d at N = 4096", told.measured
    )
    none = judge_best_group_size(draw("fair", sizes=(3, 15)))[-1]
    assert none.measured == "no group size divides these budgets"
