"""The paper's statements on a screen and on a page."""

from collections.abc import Iterator, Sequence

import numpy as np

from mse_lab.answers.claims import Claim, ClaimVerdict, Statement, last_name
from mse_lab.answers.statements import LAW_FACTOR
from mse_lab.report.rendering import Part, as_text

# How the first word of a statement's name is written on the screen.
ABBREVIATIONS = {
    "Assumption": "Ass.",
    "Corollary": "Cor.",
    "Figure": "Fig.",
    "Lemma": "Lem.",
    "Section": "Sec.",
    "Theorem": "Thm.",
}
# A refutation is seen at once.
LOUD: dict[ClaimVerdict, str] = {"fails": "FAILS"}

STATEMENTS = "Statements: evidence from these models; others may differ"
CHECKS = (
    "Checks of the run, true by algebra: errors lie within a factor of "
    f"{LAW_FACTOR:g} of the law"
)
NOTES: dict[ClaimVerdict, str] = {
    "outside": "outside: Assumption 2, on which the statement rests, fails, too",
    "does not carry over": "does not carry over: what the paper saw on its own models",
}


def _cite(statement: Statement) -> str:
    name, _, rest = statement.name.partition(",")[0].partition(" (")[0].partition(" ")
    return f"{ABBREVIATIONS[name]} {rest}"


def _row(claim: Claim) -> list[str]:
    """Write a verdict, its statement, and the number that decides; or why none does."""
    decided = claim.verdict not in ("undecided", "not tested")
    decided &= not np.isnan(claim.number.estimate.value)
    runs = f" ({', '.join(map(last_name, claim.runs))})" if len(claim.runs) > 1 else ""
    said = claim.number.written if decided else claim.sentence
    verdict = LOUD.get(claim.verdict, claim.verdict)
    return [verdict, _cite(claim.about), f"{claim.about.short}{runs}: {said}"]


def _compare(about: Statement, claims: Sequence[Claim]) -> list[str]:
    """Write the verdicts of several runs on a statement, each with its runs."""
    runs: dict[str, list[str]] = {}
    for claim in claims:
        if claim.about == about:
            name = last_name(claim.runs[0])
            runs.setdefault(LOUD.get(claim.verdict, claim.verdict), []).append(name)
    said = (f"{verdict} ({', '.join(names)})" for verdict, names in runs.items())
    return [_cite(about), f"{about.short}: {', '.join(said if len(runs) > 1 else runs)}"]


def claims_parts(claims: Sequence[Claim]) -> Iterator[Part]:
    """Give the verdicts on statements and checks, then on all runs, then notes."""
    wholes = [claim for claim in claims if claim.group_size is None]
    single = [claim for claim in wholes if len(claim.runs) == 1]
    runs = list(dict.fromkeys(claim.runs[0] for claim in single))
    about = f"{', '.join(runs)}: what arXiv 2603.01162v1 says about gradients"
    yield Part(sentences=[about])
    for title, identity in ((STATEMENTS, False), (CHECKS, True)):
        of_kind = [claim for claim in single if claim.about.identity == identity]
        rows = [*map(_row, of_kind)]
        if len(runs) > 1:
            abouts = dict.fromkeys(claim.about for claim in of_kind)
            rows = [_compare(about, of_kind) for about in abouts]
        yield Part(sentences=[title], rows=rows)
    yield Part(rows=[_row(claim) for claim in wholes if len(claim.runs) > 1])
    said = {claim.verdict for claim in wholes}
    yield Part(sentences=[note for verdict, note in NOTES.items() if verdict in said])


def claims_screen(claims: Sequence[Claim]) -> str:
    """Put the verdicts on one screen: a line a statement, and the runs if several."""
    return as_text([*claims_parts(claims)])
