"""The paper's statements, written: files beside the run, and a section of the page."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mse_lab.answers.claim import Claim
from mse_lab.answers.claims import claims_table
from mse_lab.answers.judgement import Verdict
from mse_lab.answers.measured_run import UNTESTED, FinishedRun
from mse_lab.report.layout import lay_out
from mse_lab.results.files import write_table, write_text
from mse_lab.results.finished_run import read_run_name
from mse_lab.results.records import Record
from mse_lab.words import NONE


class Statement(NamedTuple):
    """All claims about a statement; on the whole of it, by size, and verdicts by run."""

    name: str
    claims: list[Claim]
    whole: list[Claim]
    by_size: list[Claim]
    found: dict[str, Verdict]


def _statements(claims: Sequence[Claim]) -> list[Statement]:
    statements = []
    for name in dict.fromkeys(claim.statement for claim in claims):
        own = [claim for claim in claims if claim.statement == name]
        whole = [claim for claim in own if claim.group_size is None]
        by_size = [claim for claim in own if claim.group_size is not None]
        found = {claim.runs[0]: claim.verdict for claim in whole if len(claim.runs) == 1}
        statements.append(Statement(name, own, whole, by_size, found))
    return statements


def claims_markdown(claims: Sequence[Claim]) -> str:
    """Write the claims as a report: verdicts by statement and run, then the details."""
    untested = [claim for claim in claims if UNTESTED in claim.reason]
    statements = _statements(claims)
    return lay_out(
        "claims.md",
        statements=statements,
        runs=list(dict.fromkeys(run for one in statements for run in one.found)),
        untested_runs=list(dict.fromkeys(", ".join(one.runs) for one in untested)),
        untested=list(dict.fromkeys(claim.statement for claim in untested)),
    )


def write_claims(folder: Path, claims: Sequence[Claim]) -> None:
    """Write `claims.csv` and `claims.md` of a run's folder; others' claims are left out."""
    name, record = read_run_name(folder), Record(folder)
    own = [claim for claim in claims if name in claim.runs]
    write_table(record.path("claims.csv"), claims_table(own))
    write_text(record.path("claims.md"), claims_markdown(own))


def _p_value(claim: Claim) -> str:
    value = claim.p_value
    if value is None or math.isnan(value):
        return NONE
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def show_claims(claims: Sequence[Claim], sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Show the verdicts of all runs, `names`, and what they rest on, by `statements`."""
    names = [source.name for source in sources]
    return {"statements": _statements(claims), "names": names, "p_value": _p_value}
