"""The paper's statements, written: a screen, and the table of a run."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from mse_lab.answers.claims import Claim, ClaimVerdict, Kind, Statement, claims_table
from mse_lab.answers.statement_numbers import UNTESTED
from mse_lab.formatting import table, with_interval, wrap
from mse_lab.results.folder import ResultsFolder

# How the first word of a statement's name is written on the screen.
ABBREVIATIONS = {"Assumption": "Ass.", "Corollary": "Cor.", "Lemma": "Lem.",
                 "Proposition": "Prop.", "Section": "Sec.", "Theorem": "Thm."}  # fmt: skip
VERDICT_WORDS: dict[ClaimVerdict | None, str] = {
    "holds": "holds",
    "fails": "FAILS",
    "outside its assumptions": "outside",
    "undecided": "undecided",
    None: "",
}
KIND_WORDS: dict[Kind, str] = {
    "evidence": "Evidence from these models; others may differ",
    "identity": "Identities, true by algebra: they test the run, not the paper",
}
OUTSIDE = "outside: outside its assumptions, for Assumption 2 fails, too"

# Columns of a verdict, of a statement's citation and of its few words; how many runs fit
# on a screen with these.
VERDICT_WIDTH, CITATION_WIDTH, SHORT_WIDTH, RUNS_TOGETHER = 11, 9, 34, 3


def _cite(statement: Statement) -> str:
    name, _, rest = statement.name.partition(" (")[0].partition(" ")
    return f"{ABBREVIATIONS[name]} {rest}"


def _line(claim: Claim) -> str:
    decided = claim.verdict != "undecided" and not math.isnan(claim.number.estimate.value)
    told = f"{claim.number.label} {with_interval(claim.number.estimate)}"
    verdict = VERDICT_WORDS[claim.verdict]
    start = f"{verdict:<{VERDICT_WIDTH}}{_cite(claim.about):<{CITATION_WIDTH}}"
    order = ", ".join(run.rpartition("/")[2] for run in claim.runs)
    runs = f" ({order})" if len(claim.runs) > 1 else ""
    words = f"{claim.about.short}{runs}: {told if decided else claim.sentence}"
    return wrap(f"{start}{words}", indent=len(start))


def _side_by_side(claims: Sequence[Claim], runs: Sequence[str]) -> Iterator[str]:
    heads = ["", "", *(run.rpartition("/")[2][: VERDICT_WIDTH - 1] for run in runs)]
    verdicts = {(claim.about, claim.runs): claim.verdict for claim in claims}
    statements = list(dict.fromkeys(one.about for one in claims if len(one.runs) == 1))
    rows = [
        [
            _cite(one),
            one.short,
            *(VERDICT_WORDS[verdicts.get((one, (run,)))] for run in runs),
        ]
        for one in statements
    ]
    head, *lines = table(rows, heads, "<" * len(heads)).splitlines()
    yield head
    for kind, title in KIND_WORDS.items():
        yield title
        pairs = zip(statements, lines, strict=True)
        yield from (line for statement, line in pairs if statement.kind == kind)


def claims_screen(claims: Sequence[Claim]) -> str:
    """Put the verdicts on one screen: a line a statement, a column a run if several."""
    wholes = [claim for claim in claims if claim.group_size is None]
    runs = list(dict.fromkeys(claim.runs[0] for claim in wholes if len(claim.runs) == 1))
    lines = [wrap(f"{', '.join(runs)}: what arXiv 2603.01162v1 says about gradients")]
    if len(runs) == 1:
        for kind, title in KIND_WORDS.items():
            lines += [title, *(_line(one) for one in wholes if one.about.kind == kind)]
    else:
        for start in range(0, len(runs), RUNS_TOGETHER):
            lines += _side_by_side(wholes, runs[start : start + RUNS_TOGETHER])
        lines += [_line(claim) for claim in wholes if len(claim.runs) > 1]
    if any(claim.verdict == "outside its assumptions" for claim in wholes):
        lines.append(OUTSIDE)
    untested = [", ".join(claim.runs) for claim in claims if UNTESTED in claim.sentence]
    if untested:
        names = ", ".join(dict.fromkeys(untested))
        lines.append(wrap(f"Norms only, so nothing tests the law: {names}"))
    return "\n".join(lines)


def write_claims(folder: Path, run: str, claims: Sequence[Claim]) -> None:
    """Write `claims.csv` into a folder: the claims about one run, by its name."""
    about_run = [claim for claim in claims if run in claim.runs]
    ResultsFolder(folder).write("claims.csv", claims_table(about_run))
