"""Corollary 4: a limit, which a small group says nothing of."""

from types import SimpleNamespace

import numpy as np
import pytest

from claimed_runs import by_size, draw, scores_with_a_mean, verdicts
from mse_lab.answers.corollary_4_oracle import (
    MARGIN,
    _test,
    decide_by_either,
    explain_distance,
    judge_oracle_property,
)
from mse_lab.answers.judgement import Pair
from mse_lab.mse.intervals import Statistic


def test_corollary_4_holds_at_64_and_a_small_group_says_nothing_of_a_limit():
    claims = judge_oracle_property(draw("fair"))
    assert verdicts(claims) == {"Corollary 4": "holds"}
    # zeta / T is 1 or a little more: beyond 5% up to G = 16, within it at 64.
    assert by_size(claims, "Corollary 4") | {32: ""} == {
        4: "undecided", 8: "undecided", 16: "undecided", 32: "", 64: "holds"
    }  # fmt: skip
    small = judge_oracle_property(draw("fair", sizes=(4, 8)))
    assert verdicts(small) == {"Corollary 4": "undecided"}
    assert "Too small a G" in small[0].reason


def test_corollary_4_fails_where_large_groups_agree():
    """The law says within 5% at G = 64; scores with a mean put the replicates outside."""
    claims = judge_oracle_property(scores_with_a_mean(draw("quiet")))
    assert verdicts(claims) == {"Corollary 4": "fails"}


def test_a_ratio_at_the_margin_is_no_evidence_of_either_side():
    """Two tests, one on each side, of which the smaller p-value counts twice."""
    rng = np.random.default_rng(0)
    oracle, grpo = (
        Statistic(mse, {run: rng.standard_normal((1, 20))}, {})
        for run, mse in (("one", 10.0), ("other", 10.0 * (1 + MARGIN)))
    )
    outside, inside = _test(Pair(8, grpo, oracle))
    assert (outside, inside) == (pytest.approx(1), pytest.approx(0.5))


def test_where_replicates_cannot_decide_the_law_is_shown():
    """Whatever it says; its interval is far narrower."""
    number = Statistic(1.0, {}, {})
    measured, law = (
        Pair(4, number, number, label).with_verdict("undecided", 0.5, 0.95)
        for label in ("replicates", "law")
    )
    assert decide_by_either([measured, law])[0] is law
    assert decide_by_either([measured, law._replace(verdict="holds")])[0].pair is law.pair
    assert decide_by_either([measured._replace(verdict="fails"), law])[0].pair.label == (
        "replicates"
    )


@pytest.mark.parametrize(("zeta", "start"), [(2.02, 42), (0.02, 2)])
def test_the_size_from_which_on_the_ratio_is_within_the_margin(zeta, start):
    """1 + 2.02/41 is less than 1.05 and 1 + 2.02/40 is not; a group has two or more."""
    run = SimpleNamespace(
        oracle_trace=SimpleNamespace(value=1.0), zeta=SimpleNamespace(value=zeta)
    )
    assert f"from G = {start} on." in explain_distance(run)
