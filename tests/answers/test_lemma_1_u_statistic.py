"""Lemma 1 holds on any data, and fails for other weights."""

from claimed_runs import draw, verdicts
from mse_lab.answers.lemma_1_u_statistic import judge_u_statistic, largest_difference
from mse_lab.estimators.constant import vanilla
from mse_lab.estimators.leave_one_out import centred


def test_lemma_1():
    evidence = draw("fair")
    assert verdicts(judge_u_statistic(evidence)) == {"Lemma 1": "holds"}
    for other in (centred, vanilla):
        assert verdicts(judge_u_statistic(evidence, other)) == {"Lemma 1": "fails"}
    # Centred weights are 3/4 of GRPO-type's at G = 4: off by w/4 relative to 3w/4.
    assert 0.05 < largest_difference(evidence.pools, 4, centred)[0] < 1 / 3 + 1e-12
