"""Claims as a page to read, and both files of them in a run's folder."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from mse_lab.answers.claim import Claim
from mse_lab.answers.claims import claims_table
from mse_lab.answers.evidence import UNTESTED
from mse_lab.results.files import write_table, write_text
from mse_lab.results.finished_run import read_tables
from mse_lab.results.records import Record

_SHOWN = {
    "holds": "holds",
    "fails": "**FAILS**",
    "premise fails": "premise fails",
    "undecided": "undecided",
}

_HEAD = """# The paper's statements about gradients, put to these runs

arXiv 2603.01162. *Holds* and **FAILS** are shown at the level 1 - `interval.level` of the
run, Holm-corrected over the group sizes (and whatever else is compared) of a statement;
brackets are intervals of that coverage, not corrected. *Undecided*: the evidence allows
both. *Premise fails*: not so here, where an assumption it rests on fails. *Identities*
follow from algebra for completions that are drawn independently from the policy that is
differentiated; they say that the run is sound, not that the paper is right.
"""


def claims_markdown(claims: Sequence[Claim]) -> str:
    """Write the claims as a report: verdicts by statement and run, then the details."""
    parts = [_HEAD, _verdicts(claims), *_untested(claims), "## Details\n"]
    return "\n".join([*parts, *_details(claims)])


def _untested(claims: Sequence[Claim]) -> Iterator[str]:
    """Say in a line which statements runs without replicates cannot be asked about."""
    untested = [claim for claim in claims if UNTESTED in claim.reason]
    if untested:
        runs = ", ".join(dict.fromkeys(_run(claim) for claim in untested))
        statements = ", ".join(dict.fromkeys(claim.statement for claim in untested))
        yield (
            f"Norms only, no replicates: {runs}. They say nothing on {statements}; the "
            "rest is judged by the exact law, which takes Theorem 2 for granted.\n"
        )


def _run(claim: Claim) -> str:
    return ", ".join(claim.runs)


def _line(cells: Sequence[str]) -> str:
    """A row of a Markdown table; a bar inside a cell would end it."""
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join(_line(row) for row in (head, rule, *rows)) + "\n"


def _verdicts(claims: Sequence[Claim]) -> str:
    """Statements down, runs across; comparisons of runs below."""
    whole = [claim for claim in claims if claim.group_size is None]
    single = [claim for claim in whole if len(claim.runs) == 1]
    runs = list(dict.fromkeys(_run(claim) for claim in single))
    found = {(claim.statement, _run(claim)): _SHOWN[claim.verdict] for claim in single}
    statements = dict.fromkeys(claim.statement for claim in single)
    kinds = {claim.statement: claim.kind for claim in single}
    rows = [
        [one, kinds[one], *(found.get((one, run), "") for run in runs)]
        for one in sorted(statements, key=lambda one: kinds[one])
    ]
    table = _rows(["statement", "kind", *runs], rows) if rows else ""
    compared = [
        f"{claim.statement}, {' -> '.join(claim.runs)}: {_SHOWN[claim.verdict]}\n"
        for claim in whole
        if len(claim.runs) > 1
    ]
    return "\n".join([table, *compared])


def _details(claims: Sequence[Claim]) -> Iterator[str]:
    """Yield a section for each statement."""
    for statement in dict.fromkeys(claim.statement for claim in claims):
        own = [claim for claim in claims if claim.statement == statement]
        yield f"### {statement}\n\n{own[0].says}\n"
        if own[0].kind == "identity":
            yield f"An identity; it would fail by {own[0].would_fail}.\n"
        yield _rows(["run", "G", "measured", "p", "verdict"], [_cells(one) for one in own])
        yield _reasons(own)


def _cells(claim: Claim) -> list[str]:
    size = "all" if claim.group_size is None else str(claim.group_size)
    p_value = claim.p_value
    shown = "" if p_value is None or np.isnan(p_value) else f"{p_value:.2g}"
    return [_run(claim), size, claim.measured, shown, _SHOWN[claim.verdict]]


def _reasons(claims: Sequence[Claim]) -> str:
    whole = [claim for claim in claims if claim.group_size is None]
    return "".join(f"- {_run(claim)}: {claim.reason}\n" for claim in whole)


def write_claims(folder: Path, claims: Sequence[Claim]) -> None:
    """Write `claims.csv` and `claims.md` of one run: its own rows, and comparisons.

    Args:
        folder: The run's folder.
        claims: Of any runs; others' rows are left out.
    """
    name, record = read_tables(folder).name, Record(folder)
    own = [claim for claim in claims if name in claim.runs]
    write_table(record.path("claims.csv"), claims_table(own))
    write_text(record.path("claims.md"), claims_markdown(own))
