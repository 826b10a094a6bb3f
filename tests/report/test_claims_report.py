"""The claims as written: files of a run, one screen, a table that no cell breaks."""

from dataclasses import replace

import pandas as pd

from claimed_runs import draw, write_run
from mse_lab.answers.arguments import ARGUMENTS
from mse_lab.answers.measured_run import read_run
from mse_lab.answers.statement import judge_runs
from mse_lab.formatting import with_interval
from mse_lab.report.claims_report import SHORT, claims_screen, write_claims


def test_written_claims(tmp_path):
    folders = [write_run(tmp_path / kind, kind, 1) for kind in ("quiet", "small")]
    runs = [read_run(folder) for folder in folders]
    for run in runs:
        write_claims(run.folder, run.name, judge_runs(runs))
    table = folders[0] / "claims.csv"
    written = pd.read_csv(table)
    assert set(written["run"]) == {"quiet", "quiet, small"}
    assert set(written["verdict"]) == {"holds", "fails", "premise fails", "undecided"}
    assert written["group_size"].isna().sum() == 22
    argued = written[written["kind"] == "argument"]
    assert set(argued["statement"]) == {one.name for one in ARGUMENTS}
    assert argued["p_value"].isna().all()
    assert (written["would_fail"].notna() == (written["kind"] == "identity")).all()
    assert written["says"].notna().all()
    first = table.read_bytes()
    write_claims(folders[0], runs[0].name, judge_runs(runs))
    assert table.read_bytes() == first


def test_one_run_on_one_screen():
    """A line a statement: evidence first, then identities; verdict, words, number."""
    claims = judge_runs([draw("quiet", sizes=(4, 8))])
    lines = claims_screen(claims).splitlines()
    assert max(map(len, lines)) <= 80
    lines = [line for line in lines if not line.startswith(" ")]
    assert len(lines) <= 23
    whole = [claim for claim in claims if claim.group_size is None]
    assert len(lines) == len(whole) - len(ARGUMENTS) + 4
    assert "by no run, in claims.csv: Thm. 8, Ass. 5, Table 2, App. A" in lines[-1]
    assert lines.pop(0).startswith("quiet-1: ")
    middle = next(n for n, line in enumerate(lines) if line.startswith("Identities"))
    assert lines[0].startswith("Evidence")
    assert sum(claim.about.kind == "evidence" for claim in whole) == middle - 1
    [line] = [line for line in lines if "score norm" in line]
    [claim] = [claim for claim in whole if claim.statement == "Assumption 2"]
    assert line.startswith(f"FAILS      Ass. 2   {claim.about.short}: r -")
    assert line.endswith(with_interval(claim.estimate))
    unsure = replace(claim, verdict="undecided", reason="Because of this.")
    assert "uncorrelated: Because of this." in claims_screen([unsure])


def test_long_numbers_and_reasons_go_on_in_the_next_line():
    [claim] = [
        one
        for one in judge_runs([draw("quiet", sizes=(4, 8))])
        if one.statement == "Assumption 2" and one.group_size is None
    ]
    reason = f"{'Because of this, ' * 12}and take more prompts."
    lines = claims_screen([replace(claim, verdict="undecided", reason=reason)]).splitlines()
    assert max(map(len, lines)) <= 80
    assert reason in " ".join(" ".join(lines).split())
    assert lines[3].startswith(" " * 20)


def test_several_runs_side_by_side():
    claims = judge_runs([draw("quiet", sizes=(4, 8)), draw("fair", sizes=(4, 8))])
    lines = claims_screen(claims).splitlines()
    assert lines[0].startswith("quiet-1, fair-1: ")
    assert lines[1].split() == ["quiet-1", "fair-1"]
    [line] = [line for line in lines if "score norm" in line]
    found = {one.runs[0]: one.verdict for one in claims if one.statement == "Assumption 2"}
    assert line.split()[-2:] == ["FAILS", found["fair-1"]]
    assert sum("errors fall in this order (quiet-1, fair-1)" in line for line in lines) == 1
    assert max(map(len, lines)) <= 80


def test_every_statement_is_said_in_few_words():
    """They leave room for three runs beside them, and the number has a name."""
    two = [draw("quiet", sizes=(4, 8, 32, 64)), draw("fair", sizes=(4, 8, 32, 64))]
    for claim in judge_runs(two):
        assert 0 < len(claim.about.short) <= SHORT, claim.statement
        assert claim.about.number or claim.about.kind == "argument", claim.statement
