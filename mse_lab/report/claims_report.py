"""The paper's statements, written: a screen, and the table of a run."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from mse_lab.answers.claims import (
    Claim,
    ClaimVerdict,
    Kind,
    Statement,
    claims_table,
    last_name,
)
from mse_lab.answers.statement_numbers import UNTESTED
from mse_lab.formatting import with_interval
from mse_lab.report.rendering import Part, as_text
from mse_lab.results.folder import ResultsFolder

# How the first word of a statement's name is written on the screen.
ABBREVIATIONS = {
    "Assumption": "Ass.",
    "Corollary": "Cor.",
    "Lemma": "Lem.",
    "Proposition": "Prop.",
    "Section": "Sec.",
    "Theorem": "Thm.",
}
VERDICT_WORDS: dict[ClaimVerdict, str] = {
    "holds": "holds",
    "fails": "FAILS",
    "outside its assumptions": "outside",
    "undecided": "undecided",
}
KIND_WORDS: dict[Kind, str] = {
    "evidence": "Evidence from these models; others may differ",
    "identity": "Identities, true by algebra: they test the run, not the paper",
}
OUTSIDE = "outside: outside its assumptions, for Assumption 2 fails, too"


def _cite(statement: Statement) -> str:
    name, _, rest = statement.name.partition(" (")[0].partition(" ")
    return f"{ABBREVIATIONS[name]} {rest}"


def _row(claim: Claim) -> list[str]:
    """Write a verdict, its statement, and the number that decides; or why none does."""
    decided = claim.verdict != "undecided" and not math.isnan(claim.number.estimate.value)
    number = f"{claim.number.label} {with_interval(claim.number.estimate)}"
    runs = f" ({', '.join(map(last_name, claim.runs))})" if len(claim.runs) > 1 else ""
    words = f"{claim.about.short}{runs}: {number if decided else claim.sentence}"
    return [VERDICT_WORDS[claim.verdict], _cite(claim.about), words]


def _side_by_side(title: str, claims: Sequence[Claim], runs: Sequence[str]) -> Part:
    """Lay the verdicts on single runs out, a line a statement and a column a run."""
    verdicts = {(one.about, one.runs): VERDICT_WORDS[one.verdict] for one in claims}
    rows = [
        [
            f"{_cite(one):<8}  {one.short}",
            *(verdicts.get((one, (run,)), "") for run in runs),
        ]
        for one in dict.fromkeys(claim.about for claim in claims)
    ]
    return Part(sentences=[title], rows=rows, heads=["", *map(last_name, runs)])


def claims_parts(claims: Sequence[Claim]) -> Iterator[Part]:
    """Give the verdicts on whole statements, by kind, then on all runs, then notes."""
    wholes = [claim for claim in claims if claim.group_size is None]
    single = [claim for claim in wholes if len(claim.runs) == 1]
    runs = list(dict.fromkeys(claim.runs[0] for claim in single))
    about = f"{', '.join(runs)}: what arXiv 2603.01162v1 says about gradients"
    yield Part(sentences=[about])
    for kind, title in KIND_WORDS.items():
        of_kind = [claim for claim in single if claim.about.kind == kind]
        if len(runs) == 1:
            yield Part(sentences=[title], rows=[*map(_row, of_kind)])
        else:
            yield _side_by_side(title, of_kind, runs)
    yield Part(rows=[_row(claim) for claim in wholes if len(claim.runs) > 1])
    outside = any(claim.verdict == "outside its assumptions" for claim in wholes)
    untested = [", ".join(claim.runs) for claim in claims if UNTESTED in claim.sentence]
    names = ", ".join(dict.fromkeys(untested))
    norms_only = f"Norms only, so nothing tests the law: {names}"
    yield Part(sentences=[OUTSIDE] * outside + [norms_only] * bool(names))


def claims_screen(claims: Sequence[Claim]) -> str:
    """Put the verdicts on one screen: a line a statement, a column a run if several."""
    return as_text([*claims_parts(claims)])


def write_claims(folder: Path, run: str, claims: Sequence[Claim]) -> None:
    """Write `claims.csv` into a folder: the claims about one run, by its name."""
    about_run = [claim for claim in claims if run in claim.runs]
    ResultsFolder(folder).write("claims.csv", claims_table(about_run))
