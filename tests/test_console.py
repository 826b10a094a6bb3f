"""What a command says of itself and of its errors; how it ends: `test_process.py`."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from mse_lab.console import REQUIRED, command_prefix, ending

ROOT = Path(__file__).resolve().parents[1]


def test_what_is_required_is_what_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.match(r"\w+", one)[0] for one in project["dependencies"]}
    assert names - {"pyyaml"} | {"yaml"} == REQUIRED


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("run_mse.py", "python run_mse.py"),
        ("../clone/run_mse.py", "python ../clone/run_mse.py"),
        ("pytest", "python run_mse.py"),
        ("lib/mse_lab/__main__.py", "python -m mse_lab"),
        ("bin/mse-lab", "bin/mse-lab"),
        ("{here}/bin/mse-lab", "mse-lab"),
        ("/elsewhere/bin/mse-lab", "/elsewhere/bin/mse-lab"),
    ],
)
def test_the_next_command_is_typed_as_this_one(first, expected, tmp_path, monkeypatch):
    """By its name alone where it is found so, as in an activated environment."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mse-lab").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "argv", [first.format(here=tmp_path), "demo"])
    assert command_prefix() == expected


def test_details_that_cannot_be_written(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    assert "no file (Not a directory; set TMPDIR)" in ending(ValueError("x")).line
