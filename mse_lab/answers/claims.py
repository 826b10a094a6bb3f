"""Put every statement of the paper to every run."""

from collections.abc import Sequence

import pandas as pd

from mse_lab.answers.arguments import judge_arguments
from mse_lab.answers.assumption_2_norm_ratio import judge_norm_ratio
from mse_lab.answers.corollary_4_oracle import judge_oracle_property
from mse_lab.answers.corollary_5_baseline import judge_baselines
from mse_lab.answers.corollary_10_learned_policy import judge_learned_policy
from mse_lab.answers.lemma_1_u_statistic import judge_u_statistic
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.proposition_3_prompts import judge_random_prompts
from mse_lab.answers.section_5_1_figure_4 import judge_observations, judge_order_of_runs
from mse_lab.answers.statement import Claim
from mse_lab.answers.theorem_2_mse import judge_expansion
from mse_lab.answers.theorem_7_group_size import judge_best_group_size
from mse_lab.errors import InputError

# In the order of the paper, but for what no run measures.
STATEMENTS = (
    judge_u_statistic,
    judge_expansion,
    judge_random_prompts,
    judge_oracle_property,
    judge_baselines,
    judge_norm_ratio,
    judge_observations,
    judge_best_group_size,
    judge_learned_policy,
    judge_arguments,
)


def judge_run(run: MeasuredRun) -> list[Claim]:
    """Put every statement about one run to it, in the order of the paper.

    Raises:
        InputError: It has no group size of two or more.
    """
    if not run.sizes:
        sizes = list(run.group_sizes)
        raise InputError(
            f"{run.where}group_sizes = {sizes}: claims need one of two or more"
        )
    return [claim for judge in STATEMENTS for claim in judge(run)]


def judge_runs(runs: Sequence[MeasuredRun]) -> list[Claim]:
    """Put every statement to runs, in the order in which MSEs are claimed to fall.

    Returns:
        Claims in the order of the paper for each run, then those that compare runs. Of a
        statement the verdict as a whole comes first, then its group sizes.

    Raises:
        InputError: Two have one name, or one has no group size of two or more.
    """
    names = [run.name for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two runs are named {name}; judge them one at a time")
    single = [claim for run in runs for claim in judge_run(run)]
    return single + judge_order_of_runs(runs)


def claims_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """Make `claims.csv`: one row a claim; `group_size` empty for a statement as a whole."""
    rows = [
        {
            "statement": claim.statement,
            "kind": claim.kind,
            "run": ", ".join(claim.runs),
            "group_size": claim.group_size,
            "says": claim.says,
            "measured": claim.measured,
            **claim.estimate._asdict(),
            "p_value": claim.p_value,
            "verdict": claim.verdict,
            "reason": claim.reason,
            "would_fail": claim.would_fail,
        }
        for claim in claims
    ]
    return pd.DataFrame(rows).astype({"group_size": "Int64", "p_value": float})
