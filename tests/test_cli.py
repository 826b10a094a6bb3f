"""The words of the command line: understood, or refused in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

import mse_lab
import run_mse
from mse_lab import cli
from mse_lab.cli import RESULTS, parse

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "tiny/bse"], "no probe tiny/bse; did you mean tiny/base?"),
        (["run", "tiny/base", "--set", "seed"], "--set seed: not KEY=VALUE"),
        (["run", "tiny/base", "--set", "pool.replicat=1"], "unknown key pool.replicat"),
        (["run", "tiny/base", "--set", "seed=[1"], "not valid YAML"),
        (["figure", "nowhere"], "nowhere: no finished run"),
        (["figure", "--out", "f.jpg"], "the suffix must be one of"),
        (["figure", "nowhere", "--out", "."], "'.' names no file"),
        (["report", "nowhere", "--out", ""], "'' names no file"),
        (["list", "--out", ""], "cannot be written to ''"),
        (["list", "--out", __file__], "cannot be written to"),
        (["advise", "x" * 5000], "x: File name too long; shorten it"),
        (["claims", "a\0b"], "holds a NUL byte"),
        (["draw"], "invalid choice: 'draw'"),
        ([], "required: COMMAND; see run_mse.py --help"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_bad_words(words, message, refused):
    assert message in refused(*words)


def test_version(capsys):
    assert run_mse.main(["--version"]) == 0
    assert capsys.readouterr().out == f"mse_lab {mse_lab.__version__}\n"


def test_help_imports_nothing_heavy():
    code = (
        "import sys, run_mse; run_mse.main(['--help']); "
        "print([name for name in ('numpy', 'pydantic', 'torch') if name in sys.modules])"
    )
    words = [sys.executable, "-c", code]
    assert subprocess.check_output(words, cwd=ROOT, text=True).endswith("[]\n")


def test_settings_and_names_are_taken_in_order():
    found = parse(["run", "one", "two", "--set", "a=1", "--set", "b=2", "--out", "here"])
    assert (found.probes, found.set) == (["one", "two"], ["a=1", "b=2"])
    assert (found.out, found.fresh) == (Path("here"), False)
    assert parse(["plan", "one"]).out == RESULTS
    assert parse(["figure"]).runs == []


def test_a_run_is_a_folder_or_a_probe_s_name(tmp_path, monkeypatch):
    """A folder of that name goes before; what is neither is left to be refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "RESULTS", tmp_path / "results")
    (tmp_path / "results/tiny/base").mkdir(parents=True)
    words = ["claims", "tiny/base", "tiny/none"]
    assert parse(words).runs == [tmp_path / "results/tiny/base", Path("tiny/none")]
    (tmp_path / "tiny/base").mkdir(parents=True)
    assert parse(words).runs[0] == Path("tiny/base")
    assert parse(["analyse", "pools.npz"]).source == Path("pools.npz")
