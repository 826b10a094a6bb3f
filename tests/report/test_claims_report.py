"""The claims as written: files of a run, and a table that no cell breaks."""

import pandas as pd

from claimed_runs import write_run
from mse_lab.answers.claim import Claim
from mse_lab.answers.claims import judge_runs
from mse_lab.answers.measured_run import read_run
from mse_lab.mse.intervals import UNKNOWN
from mse_lab.report.claims_report import claims_markdown, write_claims


def test_written_claims(tmp_path):
    folders = [write_run(tmp_path / kind, kind, 1) for kind in ("quiet", "small")]
    claims = judge_runs([read_run(folder) for folder in folders])
    for folder in folders:
        write_claims(folder, claims)
    table, page = (folders[0] / name for name in ("claims.csv", "claims.md"))
    written = pd.read_csv(table)
    assert set(written["run"]) == {"quiet", "quiet, small"}
    assert set(written["verdict"]) == {"holds", "fails", "premise fails", "undecided"}
    assert written["group_size"].isna().sum() == 16
    assert (written["would_fail"].notna() == (written["kind"] == "identity")).all()
    assert written["says"].notna().all()
    assert "| Assumption 2 | evidence | **FAILS** |" in page.read_text()
    first = table.read_bytes()
    write_claims(folders[0], judge_runs([read_run(folder) for folder in folders]))
    assert table.read_bytes() == first


def test_bars_do_not_break_the_page():
    claim = Claim("S", ("a",), "||W||", "||W||^2 is 1", "holds", "why", 4, UNKNOWN)
    row = next(line for line in claims_markdown([claim]).splitlines() if "is 1" in line)
    assert row.replace(r"\|", "").count("|") == 6
