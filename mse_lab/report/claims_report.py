"""The paper's statements, written: a screen, the table of a run, a section of the page."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mse_lab.answers.judgement import Verdict
from mse_lab.answers.measured_run import UNTESTED, FinishedRun
from mse_lab.answers.statement import Claim, Statement, claims_table
from mse_lab.formatting import NONE, table, with_interval, wrap
from mse_lab.report.layout import TEMPLATES, Table, typeset
from mse_lab.results.files import write_table
from mse_lab.results.folder import ResultsFolder

# How the first word of a statement's name is written on the screen.
ABBREVIATIONS = {"Appendix": "App.", "Assumption": "Ass.", "Corollary": "Cor.",
                 "Lemma": "Lem.", "Proposition": "Prop.", "Section": "Sec.",
                 "Theorem": "Thm."}  # fmt: skip
VERDICT_WORDS: dict[Verdict | None, str] = {
    "holds": "holds",
    "fails": "FAILS",
    "premise fails": "no premise",
    "undecided": "undecided",
}
KINDS = {
    "evidence": "Evidence from these models; others may differ",
    "identity": "Identities: they test the run, not the paper",
}
# Columns of a verdict, and of a statement's citation.
COLUMN, CITATION = 11, 9
# Columns of a statement's few words, and how many runs fit on a screen with it.
SHORT, TOGETHER = 34, 3


def _by_statement(claims: Sequence[Claim]) -> dict[Statement, list[Claim]]:
    grouped: dict[Statement, list[Claim]] = {}
    for claim in claims:
        if claim.group_size is None:
            grouped.setdefault(claim.about, []).append(claim)
    return grouped


def _verdicts(whole: Sequence[Claim]) -> dict[str, Verdict]:
    return {claim.runs[0]: claim.verdict for claim in whole if len(claim.runs) == 1}


def _cite(statement: Statement) -> str:
    name, _, rest = statement.name.partition(" (")[0].partition(" ")
    return f"{ABBREVIATIONS.get(name, name)} {rest}".rstrip()


def _line(claim: Claim) -> str:
    decided = claim.verdict != "undecided" and not math.isnan(claim.estimate.value)
    number = f"{claim.about.number} {with_interval(claim.estimate)}"
    start = f"{VERDICT_WORDS[claim.verdict]:<{COLUMN}}{_cite(claim.about):<{CITATION}}"
    order = ", ".join(run.rpartition("/")[2] for run in claim.runs)
    runs = f" ({order})" if len(claim.runs) > 1 else ""
    words = f"{claim.about.short}{runs}: {number if decided else claim.reason}"
    return wrap(f"{start}{words}", indent=len(start))


def _side_by_side(
    grouped: Mapping[Statement, Sequence[Claim]], runs: Sequence[str]
) -> Iterator[str]:
    heads = ["", "", *(run.rpartition("/")[2][: COLUMN - 1] for run in runs)]
    kinds, rows = [], []
    for statement, whole in grouped.items():
        if statement.kind in KINDS and (verdicts := _verdicts(whole)):
            words = (VERDICT_WORDS.get(verdicts.get(run), "") for run in runs)
            kinds.append(statement.kind)
            rows.append([_cite(statement), statement.short, *words])
    head, *lines = table(rows, heads, "<" * len(heads)).splitlines()
    yield head
    for kind, title in KINDS.items():
        yield title
        pairs = zip(kinds, lines, strict=True)
        yield from (line for row_kind, line in pairs if row_kind == kind)


def claims_screen(claims: Sequence[Claim]) -> str:
    """Put the verdicts on one screen: a line a statement, a column a run if several."""
    grouped = _by_statement(claims)
    wholes = [claim for whole in grouped.values() for claim in whole]
    runs = list(dict.fromkeys(claim.runs[0] for claim in wholes if len(claim.runs) == 1))
    lines = [wrap(f"{', '.join(runs)}: what arXiv 2603.01162 says about gradients")]
    if len(runs) == 1:
        for kind, title in KINDS.items():
            lines += [title, *(_line(one) for one in wholes if one.about.kind == kind)]
    else:
        for start in range(0, len(runs), TOGETHER):
            lines += _side_by_side(grouped, runs[start : start + TOGETHER])
        lines += [_line(claim) for claim in wholes if len(claim.runs) > 1]
    arguments = (statement for statement in grouped if statement.kind == "argument")
    citations = ", ".join(map(_cite, arguments))
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


def show_claims(claims: Sequence[Claim], sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Show the verdicts of all runs, by `kinds`, and what they rest on, by `statements`."""
    grouped, names = _by_statement(claims), [source.name for source in sources]
    rows: dict[str, list[list[str]]] = {kind: [] for kind in KINDS}
    name_cell = Markup("{}<small>{}: {}</small>")
    macros: Any = TEMPLATES.get_template("parts.html").module
    for about, whole in grouped.items():
        if about.kind in KINDS and (verdicts := _verdicts(whole)):
            name = name_cell.format(typeset(about.short), about.name, typeset(about.says))
            given = (verdicts.get(run) for run in names)
            cells = (Markup(macros.verdict(one)) if one else NONE for one in given)
            rows[about.kind].append([name, *cells])
    heads = ["Statement", *names]
    return {
        "kinds": [(title, Table(heads, rows[kind])) for kind, title in KINDS.items()],
        "statements": list(grouped.items()),
    }
