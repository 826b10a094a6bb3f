"""Put every statement of the paper to every run."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from mse_lab.answers.claim import Claim
from mse_lab.answers.corollary_4 import judge_oracle_property
from mse_lab.answers.corollary_5 import judge_baselines
from mse_lab.answers.evidence import Evidence, gather, read_evidence
from mse_lab.answers.lemma_1 import judge_u_statistic
from mse_lab.answers.proposition_3 import judge_random_prompts
from mse_lab.answers.section_5_1 import judge_observations, judge_order_of_runs
from mse_lab.answers.theorem_2 import judge_expansion
from mse_lab.answers.theorem_7 import judge_best_group_size
from mse_lab.errors import InputError
from mse_lab.results.analysis import Analysis

# In the order of the paper.
STATEMENTS = (
    judge_u_statistic,
    judge_expansion,
    judge_random_prompts,
    judge_oracle_property,
    judge_baselines,
    judge_observations,
    judge_best_group_size,
)


def judge_run(evidence: Evidence) -> list[Claim]:
    """Put every statement about one run to it, in the order of the paper."""
    return [claim for judge in STATEMENTS for claim in judge(evidence)]


def judge_result(result: Analysis) -> list[Claim]:
    """Put every statement about one run to an analysed one.

    Raises:
        InputError: It has no group size of two or more.
    """
    return judge_run(gather(result))


def judge_runs(folders: Sequence[Path]) -> list[Claim]:
    """Put every statement to finished runs.

    Args:
        folders: The runs, in the order in which MSEs are claimed to fall.

    Returns:
        Claims in the order of the paper for each run, then those that compare runs. Of a
        statement the verdict as a whole comes first, then its group sizes.

    Raises:
        InputError: A folder holds no finished run, tables only, or two have one name.
    """
    runs = [read_evidence(folder) for folder in folders]
    names = [run.name for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two runs are named {name}; judge them one at a time")
    single = [claim for run in runs for claim in judge_run(run)]
    return single + judge_order_of_runs(runs)


def claims_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """Make `claims.csv`: one row a claim; `group_size` empty for a statement as a whole."""
    table = pd.DataFrame(
        {
            "statement": [claim.statement for claim in claims],
            "kind": [claim.kind for claim in claims],
            "run": [", ".join(claim.runs) for claim in claims],
            "group_size": [claim.group_size for claim in claims],
            "says": [claim.says for claim in claims],
            "measured": [claim.measured for claim in claims],
            "value": [claim.estimate.value for claim in claims],
            "low": [claim.estimate.low for claim in claims],
            "high": [claim.estimate.high for claim in claims],
            "p_value": [claim.p_value for claim in claims],
            "verdict": [claim.verdict for claim in claims],
            "reason": [claim.reason for claim in claims],
            "would_fail": [claim.would_fail for claim in claims],
        }
    )
    return table.astype({"group_size": "Int64", "p_value": float})
