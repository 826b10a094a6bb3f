"""Put every statement of the paper to every run.

A statement is one file of this folder, which says how it is judged (`statement.judges`) and
holds its words: nothing else knows of it.
"""

import pkgutil
from collections.abc import Sequence
from importlib import import_module

import pandas as pd

from mse_lab import answers
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import COMPARISONS, JUDGES, Claim
from mse_lab.errors import InputError


def judge_run(run: MeasuredRun) -> list[Claim]:
    """Put every statement about one run to it, in the order of the paper."""
    if not run.sizes:
        sizes = list(run.group_sizes)
        raise InputError(f"{run.where}group_sizes = {sizes}: claims need one of 2 or more")
    # What is imported registers its judges.
    for module in pkgutil.iter_modules(answers.__path__):
        import_module(f"{answers.__name__}.{module.name}")
    return [claim for _, judge in sorted(JUDGES.items()) for claim in judge(run)]


def judge_runs(runs: Sequence[MeasuredRun]) -> list[Claim]:
    """Put every statement to runs, given in the order in which MSEs are claimed to fall.

    Claims are in the order of the paper for each run, then those that compare runs. The
    verdict on a whole statement comes before those at its group sizes.
    """
    names = [run.name for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two runs are named {name}; judge them one at a time")
    single = [claim for run in runs for claim in judge_run(run)]
    return single + [claim for compare in COMPARISONS for claim in compare(runs)]


def claims_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """Make `claims.csv`: one row a claim; `group_size` empty for a statement as a whole."""
    rows = [
        {
            "statement": claim.statement,
            "kind": claim.about.kind,
            "run": ", ".join(claim.runs),
            "group_size": claim.group_size,
            "says": claim.about.says,
            "measured": claim.measured,
            **claim.estimate._asdict(),
            "p_value": claim.p_value,
            "verdict": claim.verdict,
            "reason": claim.reason,
            "would_fail": claim.about.would_fail,
        }
        for claim in claims
    ]
    return pd.DataFrame(rows).astype({"group_size": "Int64", "p_value": float})
