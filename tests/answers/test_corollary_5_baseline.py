"""Corollary 5: it holds under its assumption, and else its premise fails."""

import numpy as np
import pytest

from claimed_runs import DESIGNS, draw, evidence_of, make_design, verdicts
from mse_lab.answers.corollary_5_baseline import explain_vanilla, judge_baselines
from mse_lab.answers.judgement import Pair, judge_not_larger, judge_smaller


def test_assumption_2_and_corollary_5():
    """Where the assumption fails, a corollary that is not true had no chance."""
    fair, quiet = (verdicts(judge_baselines(draw(kind))) for kind in ("fair", "quiet"))
    assert len(fair) == 3
    assert set(fair.values()) == {"holds"}
    assert quiet.pop("Assumption 2") == "fails"
    assert set(quiet.values()) == {"premise fails"}


def test_prompt_only_baselines_are_set_against_the_limit():
    """Under Assumption 2 the best constant is the oracle, and zeta/(G(G-1)) is no loss."""
    pools = DESIGNS["fair"].draw(np.random.default_rng(4), 1024, 32, 16)
    run = evidence_of("many", pools, (4, 8, 16))
    claims = judge_baselines(run)
    rows = [one for one in claims if "prompt-only" in one.statement]
    assert [(one.group_size, one.verdict) for one in rows] == [
        (None, "holds"), (4, "holds"), (8, "holds"), (16, "holds")
    ]  # fmt: skip
    assert rows[1].estimate.low > 1.2
    limits = [
        Pair(size, run.mse_of("grpo", size) - run.zeta * share, best)
        for size, share in ((4, 1 / 12), (8, 1 / 56), (16, 1 / 240))
        for best in [run.mse_of("best-constant", size)]
    ]
    expected = [one.p_value for one in judge_not_larger(limits, run.level)]
    assert [one.p_value for one in rows[1:]] == pytest.approx(expected, rel=1e-6)


def test_a_small_limit_is_a_limit():
    """Scores a tenth as long have 1% of the MSE, and the same ratio."""
    pools = make_design((0.3, 0.8), scale=0.1).draw(np.random.default_rng(4), 256, 8, 16)
    run = evidence_of("small", pools, (4, 8, 16))
    assert 0 < run.law_of("best-constant", 1).value < 1
    [whole, *_] = (one for one in judge_baselines(run) if "prompt-only" in one.statement)
    assert "times smaller than GRPO-type's" in whole.reason


def test_vanilla_as_a_whole_is_judged_by_the_limit():
    """And shows the largest group beside it."""
    run = draw("fair")
    [whole, *_] = (one for one in judge_baselines(run) if "vanilla" in one.statement)
    [limit] = judge_smaller([Pair(0, run.oracle_trace, run.vanilla_trace)], run.level)
    assert (whole.verdict, whole.p_value, whole.estimate) == limit[1:]
    assert whole.group_size is None
    assert f"at G = {max(run.sizes)}: " in whole.measured


def test_it_is_said_from_which_size_on_vanilla_is_beaten():
    """1 + zeta / (A - T), as the table of moments has them; never where A is below T."""
    run = draw("fair")
    start = 1 + run.zeta.value / (run.vanilla_trace.value - run.oracle_trace.value)
    assert f"GRPO-type beats vanilla from G = {start:.1f} on." in explain_vanilla(run)
    assert "so vanilla has the smaller MSE at every G." in explain_vanilla(draw("quiet"))
