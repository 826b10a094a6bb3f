"""What `make figure4` ends with: which tables are not the committed ones, how far off."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci/compare.py"
COMMITTED = "estimator,mse,bias2\ngrpo,1.0,0\nvanilla,4.0,0\n"


@pytest.fixture
def clone(tmp_path):
    """A checkout with a committed table."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results/mse.csv").write_text(COMMITTED)
    (tmp_path / ".ci").mkdir()
    shutil.copy(SCRIPT, tmp_path / ".ci")
    author = ["-c", "user.name=n", "-c", "user.email=e"]
    for words in ["init"], ["add", "."], [*author, "commit", "-m", "first"]:
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def told(folder):
    words = [sys.executable, str(folder / ".ci/compare.py")]
    return subprocess.check_output(words, text=True)


def test_equal_tables(clone):
    assert told(clone) == "results and figures are the committed ones, to the last digit\n"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (COMMITTED.replace("1.0", "0.92"), "by at most 0.02 of the largest mse"),
        (COMMITTED.replace("mse", "error"), "in rows or columns"),
        (COMMITTED + "oracle,1.0,0\n", "in rows or columns"),
    ],
    ids=["number", "column", "row"],
)
def test_other_tables(table, says, clone):
    (clone / "results/mse.csv").write_text(table)
    first, line = told(clone).splitlines()
    assert first.startswith("1 files are not as committed, see git status (another")
    assert line == f"  results/mse.csv differs {says}"


def test_outside_a_checkout_nothing_is_said(clone):
    shutil.rmtree(clone / ".git")
    assert told(clone) == ""
