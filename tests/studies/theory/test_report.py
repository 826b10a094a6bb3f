"""What `theory` shows and writes: a screen of 80 columns, tables, the figure."""

import math
import re
from pathlib import Path

import pandas as pd
import pytest

import run_mse
from mse_lab.formatting import NONE
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.studies.theory import effort, lemma_6, step_sizes
from mse_lab.studies.theory.effort import Effort
from mse_lab.studies.theory.findings import Control, Finding
from mse_lab.studies.theory.report import theory_screen
from mse_lab.studies.theory.study import Study

ROOT = Path(__file__).resolve().parents[3]

FILES = {
    "statements.csv",
    "theorem_8.csv",
    "corollary_9.csv",
    "best_size.csv",
    "lemma_6.csv",
    "standardised.csv",
    "theorem_12.csv",
    "clip.csv",
    "kl.csv",
}


def finding(verdict, control=None, value=(1.0, 0.9, 1.1)):
    return Finding("Theorem 8, vanilla", "how", Estimate(*value), 1.0, verdict, control)


def test_the_screen_says_verdict_number_and_what_was_expected():
    found = [
        finding("holds"),
        finding("holds", Control("weights of oracle", False)),
        finding("premise fails", value=(1e-9, 1e-9, 1e-9)),
        Finding("Best G", "why " * 30, UNKNOWN, math.nan, "undecided"),
    ]
    lines = theory_screen(Study(found, {})).splitlines()
    assert all(len(line) <= 80 for line in lines)
    words = "holds Theorem 8, vanilla 1 1.00 (0.90 to 1.10)"
    assert " ".join(lines[2].split()) == words
    assert lines[3].startswith("undecided")
    assert lines[4].endswith("    1 1.00e-09")
    assert "why why" in lines[5]
    assert lines[6] == "2 undecided, 1 holds, 1 no premise"
    assert lines[7] == "Theorem 8, vanilla: control NOT CAUGHT: weights of oracle"


def test_no_line_of_the_committed_study_is_cut_or_grown_together():
    table = pd.read_csv(ROOT / "results/theory/statements.csv")
    found = [
        Finding(
            row.statement,
            row.protocol,
            Estimate(row.value, row.low, row.high),
            row.expected,
            row.verdict,
        )
        for row in table.itertuples()
    ]
    _, head, *lines, _ = theory_screen(Study(found, {})).splitlines()
    end = head.index("expected") + len("expected")
    for line in lines:
        assert line[end - 1].isdigit() or line[end - 1] == NONE
        assert line[end] == " "
        assert not line.endswith("...")


def test_no_statement_of_the_paper_is_missing_in_the_list():
    page = (ROOT / "results/README.md").read_text(encoding="utf-8")
    part = page.split("## Every statement, and its verdict")[1].split("\n## ")[0]
    named = r"(?:Lemma|Theorem|Proposition|Corollary) (\d+)"
    assert {int(one) for one in re.findall(named, part)} == set(range(1, 14))
    assumed = re.findall(r"Assumptions? ((?:\d, )*\d)", part)
    assert {int(one) for few in assumed for one in few.split(", ")} == set(range(1, 10))
    for place in ("Algorithm 1", "Table 1", "Table 2", "Figure 4", "Figure 5"):
        assert place in part


@pytest.fixture
def short(monkeypatch, tmp_path):
    """The command in a folder of its own, with runs that take no time."""
    monkeypatch.setattr(lemma_6, "LENGTH", 60)
    monkeypatch.setattr(step_sizes, "LENGTHS", (20, 50))
    monkeypatch.setattr(step_sizes, "CONSTANTS", (2.0, 4.0, 6.0, 8.0))
    monkeypatch.setattr(effort, "Effort", lambda seed: Effort(seed, 20, (5, 10)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_writes_tables_and_figure(short, capsys):
    assert run_mse.main(["theory", "--seed", "3"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 80
    folder = short / "results/theory"
    assert {path.name for path in folder.iterdir()} == FILES
    table = pd.read_csv(folder / "statements.csv")
    assert len(table) == 54
    known = {"holds", "fails", "undecided", "premise fails"}
    assert set(table["verdict"]) <= known
    assert table["control"].str.startswith("caught").sum() > 5
    assert (short / "figures/theory.png").stat().st_size > 50_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "-1"], "'-1' is no seed"),
        (["--seed", "9" * 30], "is no seed, such as 0"),
        (["--out", __file__], "is a file; name a folder"),
    ],
)
def test_bad_words_are_refused(words, message, refused):
    assert message in refused("theory", *words)


def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(
    tmp_path, monkeypatch, refused
):
    monkeypatch.setattr("mse_lab.studies.theory.study.study", None)
    (tmp_path / "file").touch()
    assert "cannot be written" in refused("theory", "--out", str(tmp_path / "file/below"))
