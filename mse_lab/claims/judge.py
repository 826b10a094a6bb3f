"""Put every statement to every run, and write the verdicts into the runs' folders."""

from collections.abc import Sequence
from pathlib import Path

from mse_lab.analysis import Analysis
from mse_lab.claims.baselines import judge_baselines
from mse_lab.claims.best_group_size import judge_best_group_size
from mse_lab.claims.claim import Claim
from mse_lab.claims.evidence import Evidence, gather, read_evidence
from mse_lab.claims.expansion import judge_expansion
from mse_lab.claims.observations import judge_observations, judge_order_of_runs
from mse_lab.claims.oracle_property import judge_oracle_property
from mse_lab.claims.random_prompts import judge_random_prompts
from mse_lab.claims.report import claims_markdown, claims_table
from mse_lab.claims.u_statistic import judge_u_statistic
from mse_lab.config import InputError
from mse_lab.finished import read_run_name
from mse_lab.records import Record, write_table, write_text

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


def write_claims(folder: Path, claims: Sequence[Claim]) -> None:
    """Write `claims.csv` and `claims.md` of one run: its own rows, and comparisons.

    Args:
        folder: The run's folder.
        claims: Of any runs; others' rows are left out.
    """
    name, record = read_run_name(folder), Record(folder)
    own = [claim for claim in claims if name in claim.runs]
    write_table(record.path("claims.csv"), claims_table(own))
    write_text(record.path("claims.md"), claims_markdown(own))
