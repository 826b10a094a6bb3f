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
# Columns of a verdict, and of where a statement is in the paper.
COLUMN, PLACE = 11, 9
# Columns of a statement's few words, and how many runs fit on a screen with it.
SHORT, TOGETHER = 34, 3


class Judged(NamedTuple):
    """A statement, and the claims about it as a whole."""

    about: Statement
    whole: list[Claim]

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict of each run by itself."""
        return {one.runs[0]: one.verdict for one in self.whole if len(one.runs) == 1}

    @property
    def place(self) -> str:
        """Where the statement is in the paper, abbreviated."""
        name, _, rest = self.about.name.partition(" (")[0].partition(" ")
        return f"{ABBREVIATIONS.get(name, name)} {rest}".rstrip()


def _by_statement(claims: Sequence[Claim]) -> list[Judged]:
    wholes = [claim for claim in claims if claim.group_size is None]
    statements = dict.fromkeys(claim.about for claim in wholes)
    return [
        Judged(about, [claim for claim in wholes if claim.about == about])
        for about in statements
    ]


def _of_kind(judged: Sequence[Judged], kind: str) -> list[Judged]:
    return [one for one in judged if one.about.kind == kind]


def _line(judged: Judged, claim: Claim) -> str:
    """Say one verdict with the number that decides, or why nothing is decided."""
    decided = claim.verdict != "undecided" and not math.isnan(claim.estimate.value)
    number = f"{claim.about.number} {with_interval(claim.estimate)}"
    start = f"{SHOWN[claim.verdict]:<{COLUMN}}{judged.place:<{PLACE}}"
    order = ", ".join(run.rpartition("/")[2] for run in claim.runs)
    runs = f" ({order})" if len(claim.runs) > 1 else ""
    said = f"{claim.about.short}{runs}: {number if decided else claim.reason}"
    return wrap(f"{start}{said}", indent=len(start))


def _of_several(judged: Sequence[Judged], runs: Sequence[str]) -> Iterator[str]:
    """Give the verdicts of some runs, a column for each."""
    heads = ["", "", *(run.rpartition("/")[2][: COLUMN - 1] for run in runs)]
    shown = [one for kind in KINDS for one in _of_kind(judged, kind) if one.verdicts]
    rows = [
        [
            one.place,
            one.about.short,
            *(SHOWN.get(one.verdicts.get(run), "") for run in runs),
        ]
        for one in shown
    ]
    head, *lines = table(rows, heads, "<" * len(heads)).splitlines()
    yield head
    for kind, title in KINDS.items():
        yield title
        pairs = zip(shown, lines, strict=True)
        yield from (line for one, line in pairs if one.about.kind == kind)


def claims_screen(claims: Sequence[Claim]) -> str:
    """Put the verdicts on one screen: a line a statement, a column a run if several."""
    judged = _by_statement(claims)
    runs = list(dict.fromkeys(run for one in judged for run in one.verdicts))
    lines = [wrap(f"{', '.join(runs)}: what arXiv 2603.01162 says about gradients")]
    if len(runs) == 1:
        for kind, title in KINDS.items():
            pairs = [(one, claim) for one in _of_kind(judged, kind) for claim in one.whole]
            lines += [title, *(_line(*pair) for pair in pairs)]
    else:
        for start in range(0, len(runs), TOGETHER):
            lines += _of_several(judged, runs[start : start + TOGETHER])
        pairs = [(one, claim) for one in judged for claim in one.whole]
        lines += [_line(one, claim) for one, claim in pairs if len(claim.runs) > 1]
    places = ", ".join(one.place for one in _of_kind(judged, "argument"))
    lines.append(wrap(f"Arguments, measured by no run, in claims.csv: {places}"))
    untested = [", ".join(one.runs) for one in claims if UNTESTED in one.reason]
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


def _verdict_table(judged: Sequence[Judged], names: Sequence[str]) -> Table:
    cell = Markup("{}<small>{}: {}</small>")
    rows = [
        [
            cell.format(typeset(one.about.short), one.about.name, typeset(one.about.says)),
            *(_verdict_cell(one.verdicts.get(name)) for name in names),
        ]
        for one in judged
        if one.verdicts
    ]
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
