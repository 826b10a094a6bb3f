"""Corollary 4: a limit, which a small group says nothing of."""

from claimed_runs import by_size, draw, scores_with_a_mean, verdicts
from mse_lab.answers.corollary_4_oracle import judge_oracle_property


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
