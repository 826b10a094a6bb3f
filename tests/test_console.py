"""How the next command is typed; how a command ends: `commands/test_process.py`."""

import sys

import pytest

from mse_lab.console import command_prefix


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
