"""Lemma 1 holds on any data, and fails for other weights."""

import numpy as np
import pytest

from claimed_runs import draw, verdicts
from mse_lab.answers.lemma_1_u_statistic import judge_u_statistic, largest_difference
from mse_lab.estimators.baselines import centred, grpo, vanilla
from mse_lab.mse.replicates import form_groups, group_grams


def test_lemma_1():
    evidence = draw("fair")
    assert verdicts(judge_u_statistic(evidence)) == {"Lemma 1": "holds"}
    for other in (centred, vanilla):
        assert verdicts(judge_u_statistic(evidence, other)) == {"Lemma 1": "fails"}
    # Centred weights are 3/4 of GRPO-type's at G = 4: off by w/4 relative to 3w/4.
    assert 0.05 < largest_difference(evidence.pools, 4, centred)[0] < 1 / 3 + 1e-12


def test_the_distance_is_that_of_the_sums_over_a_group():
    """Weights twice as large are off by g_hat itself, over the length of both."""
    pools, size = draw("fair").pools, 4
    found, exact = largest_difference(pools, size, lambda groups: 2 * grpo(groups))
    groups = form_groups(pools, size)
    weights_PRG = grpo(groups)
    grams_PRGG = group_grams(pools, size)
    norm2 = np.einsum("prg,prgh,prh->pr", weights_PRG, grams_PRGG, weights_PRG)
    length = 2 * (np.abs(weights_PRG) * np.sqrt(groups.norms2_PRG)).sum(-1)
    varied = length > 0
    assert exact
    expected = np.sqrt(np.abs(norm2[varied])) / length[varied]
    assert found == pytest.approx(expected.max(), rel=1e-9)
