"""The commands as a user types them."""

import os
import subprocess
import sys

import pytest

import mse_lab
import run_mse
from mse_lab.__main__ import WAITING
from mse_lab.commands.cli import COMMANDS
from mse_lab.project import PROJECT as ROOT


def test_every_command_is_carried_out(refused):
    """The words that are understood are those that have a function."""
    *_, known = refused("x").partition("known: ")
    assert known.partition(";")[0].split(", ") == list(COMMANDS)


def test_version(capsys):
    assert run_mse.main(["--version"]) == 0
    said = capsys.readouterr().out
    assert said == f"mse_lab {mse_lab.__version__}\n"
    words = [sys.executable, "-m", "mse_lab", "--version"]
    assert subprocess.check_output(words, cwd=ROOT, text=True) == said


def test_the_help_fits_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for words in [], *([name] for name in COMMANDS):
        assert run_mse.main([*words, "--help"]) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


OPENMP = """
import ctypes, sys
from importlib.util import find_spec
from pathlib import Path
from mse_lab.__main__ import start
from mse_lab.commands import cli

def load_as_torch_does():
    place = Path(find_spec("torch").origin).parents[1]
    files = [*place.glob("torch/lib/libgomp*"), *place.glob("torch.libs/libgomp*")]
    ctypes.CDLL(str(files[0]))

sys.argv[1:] = []
cli.main = load_as_torch_does
start()
"""


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "GOMP_SPINCOUNT = '1000'"),
        ({"OMP_WAIT_POLICY": "active"}, "OMP_WAIT_POLICY = 'ACTIVE'"),
        ({"GOMP_SPINCOUNT": "7"}, "GOMP_SPINCOUNT = '7'"),
    ],
    ids=["default", "policy", "spins"],
)
def test_waiting_threads_sleep_unless_told_otherwise(given, found):
    """As the OpenMP of torch itself says when it is loaded."""
    ours = {name: one for name, one in os.environ.items() if name not in WAITING}
    done = subprocess.run(
        [sys.executable, "-c", OPENMP],
        env=ours | {"OMP_DISPLAY_ENV": "verbose"} | given,
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert found in done.stderr
