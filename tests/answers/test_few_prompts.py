"""What is said of random prompts needs three of them, and no more than three."""

import numpy as np
import pytest

from claimed_runs import DESIGNS, take
from mse_lab.answers.assumption_2_norm_ratio import judge_norm_ratio
from mse_lab.answers.corollary_10_learned_policy import judge_learned_policy
from mse_lab.answers.proposition_3_prompts import judge_random_prompts
from mse_lab.answers.statement import FEW_PROMPTS
from mse_lab.answers.theorem_7_group_size import judge_best_group_size
from simulated import analysed

JUDGES = (
    judge_norm_ratio,
    judge_learned_policy,
    judge_random_prompts,
    judge_best_group_size,
)


@pytest.mark.parametrize("judge", JUDGES, ids=lambda one: one.__name__)
def test_two_prompts_are_too_few_and_three_are_enough(judge):
    for prompts, few in ((2, True), (3, False)):
        pools = take(DESIGNS["fair"], prompts).draw(np.random.default_rng(0), 64, 4, 8)
        measured = [claim.measured for claim in judge(analysed(pools, (4, 8)))]
        assert all((one == FEW_PROMPTS[0]) == few for one in measured), prompts
