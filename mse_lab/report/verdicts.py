"""Verdicts: the paper's statements, put to the runs."""

import math
from collections.abc import Sequence

from mse_lab.answers.claim import Claim
from mse_lab.answers.claims import judge_runs
from mse_lab.answers.measured_run import FinishedRun
from mse_lab.report.markup import Html, breakable, element, join, paragraph, table
from mse_lab.report.wording import NONE, typeset

# A word and a sign, for those who do not see the colour.
_SIGNS = {"holds": "✓", "fails": "✗", "premise fails": "–", "undecided": "?"}

_INTRODUCTION = (
    "What arXiv 2603.01162 says about gradients, put to these runs. A statement holds or "
    "fails at the level of the runs' intervals, corrected after Holm over the group "
    "sizes; it is undecided where the evidence allows both. Brackets are intervals of "
    "that coverage, not corrected."
)


def judge(sources: Sequence[FinishedRun]) -> list[Claim]:
    """Put the statements to the runs."""
    return judge_runs(sources)


def shown(verdict: str) -> Html:
    """Write a verdict by sign and word."""
    return element(
        "span",
        f"{_SIGNS[verdict]} {verdict}",
        class_=f"verdict {verdict.replace(' ', '-')}",
    )


def count_verdicts(claims: Sequence[Claim], run: str) -> dict[str, int]:
    """Count the verdicts on whole statements about one run."""
    own = [one for one in claims if one.runs == (run,) and one.group_size is None]
    return {sign: sum(one.verdict == sign for one in own) for sign in _SIGNS}


def _statements(claims: Sequence[Claim]) -> list[str]:
    return list(dict.fromkeys(one.statement for one in claims))


def _anchor(index: int) -> str:
    return f"statement-{index}"


def _matrix(claims: Sequence[Claim], sources: Sequence[FinishedRun]) -> Html:
    """Statements down, runs across."""
    found = {
        (one.statement, one.runs): one.verdict for one in claims if one.group_size is None
    }
    rows = []
    for index, statement in enumerate(_statements(claims)):
        verdicts = [found.get((statement, (source.name,))) for source in sources]
        if any(verdicts):
            cells = [join(NONE) if one is None else shown(one) for one in verdicts]
            rows.append([_link(statement, index), *cells])
    head = ["Statement", *(breakable(source.name) for source in sources)]
    whole = table("Verdicts by statement and run", head, rows)
    return element("div", whole, class_="matrix")


def _across(claims: Sequence[Claim]) -> list[Html]:
    """What compares runs has one verdict for all of them."""
    order = _statements(claims)
    return [
        paragraph(
            _link(one.statement, order.index(one.statement)),
            f", {' → '.join(one.runs)}: ",
            shown(one.verdict),
            class_="across",
        )
        for one in claims
        if one.group_size is None and len(one.runs) > 1
    ]


def _link(statement: str, index: int) -> Html:
    return element("a", statement, href=f"#{_anchor(index)}")


def _p_value(claim: Claim) -> str:
    value = claim.p_value
    if value is None or math.isnan(value):
        return NONE
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def _reading(claim: Claim) -> Html:
    """What one run has to say to a statement."""
    name = " → ".join(claim.runs)
    return element(
        "div",
        paragraph(element("b", name), " ", shown(claim.verdict)),
        paragraph(typeset(claim.measured)),
        paragraph(typeset(claim.reason), class_="reason"),
        class_="reading",
    )


def _by_size(claims: Sequence[Claim]) -> list[Html]:
    """The rows of single group sizes, folded away."""
    rows = [
        [
            " → ".join(one.runs),
            str(one.group_size),
            shown(one.verdict),
            _p_value(one),
            element("span", typeset(one.measured), class_="words"),
        ]
        for one in claims
        if one.group_size is not None
    ]
    if not rows:
        return []
    head = ("Run", "G", "Verdict", "p", "Measured")
    label = f"{claims[0].statement} by group size"
    summary = element("summary", "By group size")
    return [element("details", summary, table(label, head, rows))]


def _one_statement(claims: Sequence[Claim], statement: str, index: int) -> Html:
    own = [one for one in claims if one.statement == statement]
    whole = [one for one in own if one.group_size is None]
    readings = element("div", *map(_reading, whole), class_="readings")
    evidence = join(readings, *_by_size(own))
    if all(one.verdict == "holds" for one in whole):
        # Folded away: what holds everywhere needs the fewest words.
        summary = element("summary", shown("holds"), " in every run")
        evidence = element("details", summary, evidence)
    return element(
        "article",
        element("h3", statement),
        paragraph(typeset(own[0].says), class_="says"),
        evidence,
        id=_anchor(index),
    )


def verdicts_section(claims: Sequence[Claim], sources: Sequence[FinishedRun]) -> list[Html]:
    """Show the verdicts, then for each statement what they rest on."""
    return [
        paragraph(_INTRODUCTION),
        _matrix(claims, sources),
        *_across(claims),
        *(
            _one_statement(claims, statement, index)
            for index, statement in enumerate(_statements(claims))
        ),
    ]
