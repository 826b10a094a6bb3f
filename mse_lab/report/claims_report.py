"""The paper's statements, written: files beside the run, and a section of the page."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mse_lab.answers.claims import claims_table
from mse_lab.answers.judgement import Verdict
from mse_lab.answers.measured_run import UNTESTED, FinishedRun
from mse_lab.answers.statement import Claim
from mse_lab.formatting import NONE, with_interval, wrap
from mse_lab.report.layout import lay_out
from mse_lab.results.files import write_table, write_text
from mse_lab.results.finished_run import read_tables
from mse_lab.results.folder import ResultsFolder


class Words(NamedTuple):
    """A statement in plain words: where it stands, what it says, what its number is."""

    place: str
    plain: str
    number: str


# Up to 38 columns each, so that three runs stand beside them.
WORDS = {
    "Assumption 2": Words("Ass. 2", "score norm, reward uncorrelated", "r"),
    "Assumption 2 (rho = 1)": Words("Ass. 2", "rho = 1; needed: (1-V)/(2-V)", "rho"),
    "Corollary 5 (prompt-only baselines)": Words(
        "Cor. 5", "no fixed baseline is better", "group's/best"
    ),
    "Corollary 5 (vanilla)": Words("Cor. 5", "no baseline is worse", "group's/none"),
    "Section 5.1 (vanilla largest)": Words(
        "5.1", "no baseline is always worst", "group's/none"
    ),
    "Section 5.1 (near the oracle at G = 8)": Words(
        "5.1", "near the oracle at G = 8", "group's/oracle"
    ),
    "Section 5.1 (the oracle's at G = 32 and 64)": Words(
        "5.1", "near it at G = 32 and 64", "group's/oracle"
    ),
    "Section 5.1 (falls from run to run)": Words(
        "5.1", "errors fall in this order", "ratio"
    ),
    "Lemma 1": Words("Lem. 1", "the group's mean makes a U-statistic", "apart"),
    "Theorem 2 (exact law)": Words("Thm. 2", "MSE = T/G + zeta/(G(G-1))", "measured/law"),
    "Theorem 2 (intercept)": Words("Thm. 2", "G x MSE has intercept T", "measured/law"),
    "Theorem 2 (slope)": Words("Thm. 2", "G x MSE has slope zeta", "measured/law"),
    "Proposition 3": Words("Prop. 3", "random prompts add c1/B", "measured/law"),
    "Corollary 4": Words("Cor. 4", "the oracle's for large G", "group's/oracle"),
    "Section 5.1 (falls with G)": Words("5.1", "every error falls with G", "step"),
    "Theorem 7 (best group size)": Words("Thm. 7", "best G is 1 + sqrt(c3/c1)", "G*"),
    "Theorem 7 (independent of N)": Words("Thm. 7", "the best G depends on no N", "G*"),
    "Corollary 10": Words("Cor. 10", "no baseline leads further", "b* - V"),
    "Theorem 8 (covariance)": Words("Thm. 8", "the limit's covariance", ""),
    "Assumption 5 (steps beta/i)": Words("Ass. 5", "steps beta/i from the first on", ""),
    "Appendix A (K3 gradient)": Words("App. A", "the gradient of K3", ""),
}

# On the screen, ten columns wide each.
SHOWN: dict[Verdict, str] = {
    "holds": "holds",
    "fails": "FAILS",
    "premise fails": "no premise",
    "undecided": "undecided",
}
KINDS = {
    "evidence": "Evidence: another model could decide otherwise",
    "identity": "Identities: they test the run, not the paper",
    "argument": "Arguments: slips of the paper, shown on paper and by no run",
}
WIDTH, COLUMN, TOGETHER = 80, 11, 4


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


def _line(claim: Claim) -> str:
    """Say one verdict with the number that decides, or why nothing is decided."""
    words = WORDS[claim.statement]
    known = claim.verdict != "undecided" and not math.isnan(claim.estimate.value)
    told = f"{words.number} {with_interval(claim.estimate)}" if known else claim.reason
    where = f"{SHOWN[claim.verdict]:<{COLUMN}}{words.place:<8}"
    order = ", ".join(run.rpartition("/")[2] for run in claim.runs)
    runs = f" ({order})" if len(claim.runs) > 1 else ""
    return wrap(f"{where}{words.plain}{runs}: {told}", WIDTH, len(where))


def _row(one: Statement, runs: Sequence[str]) -> str:
    """Say the verdicts of several runs on one statement."""
    found = (SHOWN[one.found[run]] if run in one.found else "" for run in runs)
    words, room = WORDS[one.name], WIDTH - 8 - COLUMN * len(runs)
    verdicts = "".join(f"{verdict:<{COLUMN}}" for verdict in found)
    return f"{words.place:<8}{words.plain[: room - 1]:<{room}}{verdicts}".rstrip()


def _by_kind(statements: Sequence[Statement]) -> Iterator[tuple[str, list[Statement]]]:
    """Give what a run decides by kind, with the title of each."""
    for kind in ("evidence", "identity"):
        yield KINDS[kind], [one for one in statements if one.claims[0].kind == kind]


def _arguments(statements: Sequence[Statement]) -> str:
    """Name what no run decides in one line."""
    own = [one.name for one in statements if one.claims[0].kind == "argument"]
    places = ", ".join(WORDS[name].place for name in own)
    return wrap(f"Arguments, measured by no run, in claims.md: {places}", WIDTH)


def _of_one_run(statements: Sequence[Statement]) -> Iterator[str]:
    for title, own in _by_kind(statements):
        yield title
        yield from (_line(claim) for one in own for claim in one.whole)


def _of_several(statements: Sequence[Statement], runs: Sequence[str]) -> Iterator[str]:
    """A column a run, as many as fit beside the words."""
    names = (run.rpartition("/")[2][: COLUMN - 1] for run in runs)
    columns = "".join(f"{name:<{COLUMN}}" for name in names)
    yield f"{'':<{WIDTH - COLUMN * len(runs)}}{columns}".rstrip()
    for title, own in _by_kind(statements):
        yield title
        yield from (_row(one, runs) for one in own if one.found)


def claims_screen(claims: Sequence[Claim]) -> str:
    """Put the verdicts on one screen: a line a statement, a column a run if several."""
    statements = _statements(claims)
    runs = list(dict.fromkeys(run for one in statements for run in one.found))
    lines = [wrap(f"{', '.join(runs)}: what arXiv 2603.01162 says about gradients", WIDTH)]
    if len(runs) == 1:
        lines += _of_one_run(statements)
    else:
        for start in range(0, len(runs), TOGETHER):
            lines += _of_several(statements, runs[start : start + TOGETHER])
        across = [one for one in claims if len(one.runs) > 1 and one.group_size is None]
        lines += [_line(claim) for claim in across]
    lines.append(_arguments(statements))
    if untested := _untested(claims):
        names = ", ".join(untested)
        lines.append(wrap(f"Norms only, so nothing tests the law: {names}", WIDTH))
    return "\n".join(lines)


def _untested(claims: Sequence[Claim]) -> list[str]:
    """Name the runs without replicates."""
    found = (", ".join(one.runs) for one in claims if UNTESTED in one.reason)
    return list(dict.fromkeys(found))


def claims_markdown(claims: Sequence[Claim]) -> str:
    """Write the claims as a report: verdicts by statement and run, then the details."""
    untested = [claim for claim in claims if UNTESTED in claim.reason]
    statements = _statements(claims)
    return lay_out(
        "claims.md",
        statements=statements,
        runs=list(dict.fromkeys(run for one in statements for run in one.found)),
        untested_runs=_untested(claims),
        untested=list(dict.fromkeys(claim.statement for claim in untested)),
    )


def write_claims(folder: Path, claims: Sequence[Claim], place: Path | None = None) -> None:
    """Write `claims.csv` and `claims.md` of a run, beside it unless a `place` is given."""
    name, results = read_tables(folder).name, ResultsFolder(place or folder)
    own = [claim for claim in claims if name in claim.runs]
    write_table(results.file("claims.csv"), claims_table(own))
    write_text(results.file("claims.md"), claims_markdown(own))


def _p_value(claim: Claim) -> str:
    value = claim.p_value
    if value is None or math.isnan(value):
        return NONE
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def show_claims(claims: Sequence[Claim], sources: Sequence[FinishedRun]) -> dict[str, Any]:
    """Show the verdicts of all runs, `names`, and what they rest on, by `statements`."""
    names = [source.name for source in sources]
    told = {"words": WORDS, "kinds": KINDS, "p_value": _p_value}
    return {"statements": _statements(claims), "names": names, **told}
