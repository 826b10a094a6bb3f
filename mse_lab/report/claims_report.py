"""The paper's statements, written: a screen, the table of a run, a section of the page."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from mse_lab.answers.claims import claims_table
from mse_lab.answers.judgement import Verdict
from mse_lab.answers.measured_run import UNTESTED, FinishedRun
from mse_lab.answers.statement import Claim, Statement
from mse_lab.formatting import NONE, table, typeset, with_interval, wrap
from mse_lab.report.layout import TEMPLATES, Table
from mse_lab.results.files import write_table
from mse_lab.results.folder import ResultsFolder

# How the first word of a statement's name is written on the screen.
ABBREVIATIONS = {
    "Appendix": "App.",
    "Assumption": "Ass.",
    "Corollary": "Cor.",
    "Lemma": "Lem.",
    "Proposition": "Prop.",
    "Section": "Sec.",
    "Theorem": "Thm.",
}
VERDICT_WORDS: dict[Verdict | None, str] = {
    "holds": "holds",
    "fails": "FAILS",
    "premise fails": "no premise",
    "undecided": "undecided",
}
KINDS = {
    "evidence": "Evidence: another model could decide otherwise",
    "identity": "Identities: they test the run, not the paper",
}
# Columns of a verdict, and of a statement's citation.
COLUMN, CITATION = 11, 9
# Columns of a statement's few words, and how many runs fit on a screen with it.
SHORT, TOGETHER = 34, 3


class StatementClaims(NamedTuple):
    """A statement, and the claims about it as a whole."""

    about: Statement
    whole: list[Claim]

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict of each run by itself."""
        single = (claim for claim in self.whole if len(claim.runs) == 1)
        return {claim.runs[0]: claim.verdict for claim in single}

    @property
    def citation(self) -> str:
        """Where the statement is in the paper, abbreviated: Thm. 2."""
        name, _, rest = self.about.name.partition(" (")[0].partition(" ")
        return f"{ABBREVIATIONS.get(name, name)} {rest}".rstrip()


def _by_statement(claims: Sequence[Claim]) -> list[StatementClaims]:
    wholes = [claim for claim in claims if claim.group_size is None]
    statements = dict.fromkeys(claim.about for claim in wholes)
    return [
        StatementClaims(about, [claim for claim in wholes if claim.about == about])
        for about in statements
    ]


def _of_kind(judged: Sequence[StatementClaims], kind: str) -> list[StatementClaims]:
    return [statement for statement in judged if statement.about.kind == kind]


def _line(judged: StatementClaims, claim: Claim) -> str:
    """Say one verdict with the number that decides, or why nothing is decided."""
    decided = claim.verdict != "undecided" and not math.isnan(claim.estimate.value)
    number = f"{claim.about.number} {with_interval(claim.estimate)}"
    start = f"{VERDICT_WORDS[claim.verdict]:<{COLUMN}}{judged.citation:<{CITATION}}"
    order = ", ".join(run.rpartition("/")[2] for run in claim.runs)
    runs = f" ({order})" if len(claim.runs) > 1 else ""
    words = f"{claim.about.short}{runs}: {number if decided else claim.reason}"
    return wrap(f"{start}{words}", indent=len(start))


def _side_by_side(judged: Sequence[StatementClaims], runs: Sequence[str]) -> Iterator[str]:
    """Lay out the verdicts of a few runs, a column for each."""
    heads = ["", "", *(run.rpartition("/")[2][: COLUMN - 1] for run in runs)]
    shown = [
        statement
        for kind in KINDS
        for statement in _of_kind(judged, kind)
        if statement.verdicts
    ]
    rows = [
        [
            statement.citation,
            statement.about.short,
            *(VERDICT_WORDS.get(statement.verdicts.get(run), "") for run in runs),
        ]
        for statement in shown
    ]
    head, *lines = table(rows, heads, "<" * len(heads)).splitlines()
    yield head
    for kind, title in KINDS.items():
        yield title
        pairs = zip(shown, lines, strict=True)
        yield from (line for statement, line in pairs if statement.about.kind == kind)


def claims_screen(claims: Sequence[Claim]) -> str:
    """Put the verdicts on one screen: a line a statement, a column a run if several."""
    judged = _by_statement(claims)
    runs = list(dict.fromkeys(run for statement in judged for run in statement.verdicts))
    lines = [wrap(f"{', '.join(runs)}: what arXiv 2603.01162 says about gradients")]
    if len(runs) == 1:
        for kind, title in KINDS.items():
            lines.append(title)
            for statement in _of_kind(judged, kind):
                lines += [_line(statement, claim) for claim in statement.whole]
    else:
        for start in range(0, len(runs), TOGETHER):
            lines += _side_by_side(judged, runs[start : start + TOGETHER])
        for statement in judged:
            compared = [claim for claim in statement.whole if len(claim.runs) > 1]
            lines += [_line(statement, claim) for claim in compared]
    citations = ", ".join(argued.citation for argued in _of_kind(judged, "argument"))
    lines.append(wrap(f"Arguments, measured by no run, in claims.csv: {citations}"))
    untested = [", ".join(claim.runs) for claim in claims if UNTESTED in claim.reason]
    if untested:
        names = ", ".join(dict.fromkeys(untested))
        lines.append(wrap(f"Norms only, so nothing tests the law: {names}"))
    return "\n".join(lines)


def write_claims(folder: Path, run: str, claims: Sequence[Claim]) -> None:
    """Write `claims.csv` into a folder: the claims about one run, by its name."""
    about_run = [claim for claim in claims if run in claim.runs]
    write_table(ResultsFolder(folder).file("claims.csv"), claims_table(about_run))


def _verdict_cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return NONE
    macros: Any = TEMPLATES.get_template("parts.html").module
    return Markup(macros.verdict(verdict))


def _verdict_table(judged: Sequence[StatementClaims], names: Sequence[str]) -> Table:
    cell = Markup("{}<small>{}: {}</small>")
    rows = []
    for about, verdicts in ((one.about, one.verdicts) for one in judged):
        if verdicts:
            first = cell.format(typeset(about.short), about.name, typeset(about.says))
            rows.append([first, *(_verdict_cell(verdicts.get(name)) for name in names)])
    return Table(["Statement", *names], rows)


def show_claims(claims: Sequence[Claim], sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Show the verdicts of all runs, by `kinds`, and what they rest on, by `statements`."""
    judged, names = _by_statement(claims), [source.name for source in sources]
    return {
        "kinds": [
            (title, _verdict_table(_of_kind(judged, kind), names))
            for kind, title in KINDS.items()
        ],
        "statements": judged,
    }
