"""The paper's statements, written: a screen, the table of a run, a section of the page."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from mse_lab.answers.claims import claims_table
from mse_lab.answers.judgement import Verdict
from mse_lab.answers.measured_run import UNTESTED, FinishedRun
from mse_lab.answers.statement import Claim
from mse_lab.formatting import NONE, number, table, typeset, with_interval, wrap
from mse_lab.report.layout import TEMPLATES, Table
from mse_lab.results.files import write_table
from mse_lab.results.finished_run import read_tables
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
SHOWN: dict[Verdict | None, str] = {
    "holds": "holds",
    "fails": "FAILS",
    "premise fails": "no premise",
    "undecided": "undecided",
}
KINDS = {
    "evidence": "Evidence: another model could decide otherwise",
    "identity": "Identities: they test the run, not the paper",
}
# Columns of the screen, of a verdict, and of where a statement is in the paper.
WIDTH, COLUMN, PLACE = 80, 11, 9
# Columns of a statement's few words, and how many runs fit on a screen with it.
SHORT, TOGETHER = 34, 3


class Statement(NamedTuple):
    """All claims about a statement: as a whole, by group size, and verdicts by run."""

    about: Claim
    whole: list[Claim]
    by_size: list[Claim]
    verdicts: dict[str, Verdict]

    @property
    def place(self) -> str:
        """Where it is in the paper, abbreviated."""
        name, _, rest = self.about.statement.partition(" (")[0].partition(" ")
        return f"{ABBREVIATIONS.get(name, name)} {rest}".rstrip()

    @property
    def short(self) -> str:
        """What it says in a few words."""
        return self.about.short or self.about.says


def _statements(claims: Sequence[Claim]) -> list[Statement]:
    statements = []
    for name in dict.fromkeys(claim.statement for claim in claims):
        same = [claim for claim in claims if claim.statement == name]
        whole = [claim for claim in same if claim.group_size is None]
        by_size = [claim for claim in same if claim.group_size is not None]
        verdicts = {claim.runs[0]: claim.verdict for claim in whole if len(claim.runs) == 1}
        statements.append(Statement(same[0], whole, by_size, verdicts))
    return statements


def _line(statement: Statement, claim: Claim) -> str:
    """Say one verdict with the number that decides, or why nothing is decided."""
    decided = claim.verdict != "undecided" and not math.isnan(claim.estimate.value)
    reason = f"{claim.number} {with_interval(claim.estimate)}" if decided else claim.reason
    start = f"{SHOWN[claim.verdict]:<{COLUMN}}{statement.place:<{PLACE}}"
    order = ", ".join(run.rpartition("/")[2] for run in claim.runs)
    runs = f" ({order})" if len(claim.runs) > 1 else ""
    return wrap(f"{start}{statement.short}{runs}: {reason}", WIDTH, len(start))


def _of_kind(statements: Sequence[Statement], kind: str) -> list[Statement]:
    return [statement for statement in statements if statement.about.kind == kind]


def _of_one_run(statements: Sequence[Statement]) -> Iterator[str]:
    for kind, title in KINDS.items():
        yield title
        for statement in _of_kind(statements, kind):
            yield from (_line(statement, claim) for claim in statement.whole)


def _of_several(statements: Sequence[Statement], runs: Sequence[str]) -> Iterator[str]:
    """Give the verdicts of some runs, a column for each."""
    heads = ["", "", *(run.rpartition("/")[2][: COLUMN - 1] for run in runs)]
    shown = [
        statement
        for kind in KINDS
        for statement in _of_kind(statements, kind)
        if statement.verdicts
    ]
    rows = [
        [
            statement.place,
            statement.short,
            *(SHOWN.get(statement.verdicts.get(run), "") for run in runs),
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
    statements = _statements(claims)
    runs = list(
        dict.fromkeys(run for statement in statements for run in statement.verdicts)
    )
    lines = [wrap(f"{', '.join(runs)}: what arXiv 2603.01162 says about gradients", WIDTH)]
    if len(runs) == 1:
        lines += _of_one_run(statements)
    else:
        for start in range(0, len(runs), TOGETHER):
            lines += _of_several(statements, runs[start : start + TOGETHER])
        for statement in statements:
            lines += [
                _line(statement, claim) for claim in statement.whole if len(claim.runs) > 1
            ]
    places = ", ".join(one.place for one in _of_kind(statements, "argument"))
    lines.append(wrap(f"Arguments, measured by no run, in claims.csv: {places}", WIDTH))
    untested = [", ".join(one.runs) for one in claims if UNTESTED in one.reason]
    if untested:
        names = ", ".join(dict.fromkeys(untested))
        lines.append(wrap(f"Norms only, so nothing tests the law: {names}", WIDTH))
    return "\n".join(lines)


def write_claims(folder: Path, claims: Sequence[Claim], place: Path | None = None) -> None:
    """Write `claims.csv` of a run, into its folder unless a `place` is given."""
    name, results = read_tables(folder).name, ResultsFolder(place or folder)
    about_run = [claim for claim in claims if name in claim.runs]
    write_table(results.file("claims.csv"), claims_table(about_run))


def _verdict_cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return NONE
    macros: Any = TEMPLATES.get_template("parts.html").module
    return Markup(macros.verdict(verdict))


def _verdict_table(statements: Sequence[Statement], names: Sequence[str]) -> Table:
    """Give the verdicts of each run on each statement."""
    cell = Markup("{}<small>{}: {}</small>")
    rows = []
    for statement in statements:
        if statement.verdicts:
            claim = statement.about
            about = cell.format(
                typeset(statement.short), claim.statement, typeset(claim.says)
            )
            rows.append(
                [about, *(_verdict_cell(statement.verdicts.get(name)) for name in names)]
            )
    return Table(["Statement", *names], rows)


def _p_value(value: float | None) -> str:
    if value is None or math.isnan(value):
        return NONE
    return "< 0.0001" if value < 1e-4 else number(value, 2)


def _size_table(claims: Sequence[Claim]) -> Table:
    rows = [
        [
            " → ".join(claim.runs),
            str(claim.group_size),
            _verdict_cell(claim.verdict),
            _p_value(claim.p_value),
            typeset(claim.measured),
        ]
        for claim in claims
    ]
    return Table(["Run", "G", "Verdict", "p", "Measured"], rows)


def show_claims(claims: Sequence[Claim], sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Show the verdicts of all runs, by `kinds`, and what they rest on, by `statements`."""
    statements, names = _statements(claims), [source.name for source in sources]
    kinds = [
        (title, _verdict_table(_of_kind(statements, kind), names))
        for kind, title in KINDS.items()
    ]
    details = [
        {
            "short": statement.short,
            "name": statement.about.statement,
            "says": statement.about.says,
            "whole": statement.whole,
            "sizes": _size_table(statement.by_size),
        }
        for statement in statements
    ]
    return {"kinds": kinds, "statements": details}
