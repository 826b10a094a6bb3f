"""However a command ends, one line says so: on a real process, and at every door."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mse_lab.console import INTERNAL_ERROR, ending, exit_status_of
from mse_lab.errors import LONGEST_LINE, InputError
from mse_lab.project import PROJECT as ROOT

COMMAND = [sys.executable, str(ROOT / "run_mse.py"), "demo"]

# A library that is imported first of all, and turns whatever strikes it into its own error.
INTERRUPTED_LIBRARY = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except BaseException:
    raise ImportError("a part of this library cannot be imported")
"""


@pytest.fixture
def interrupted(tmp_path):
    """Return a function that starts a command which Ctrl-C strikes at an import."""
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}

    def start(heard=True, at="pydantic", **options):
        (tmp_path / f"{at}.py").write_text(INTERRUPTED_LIBRARY)
        # Whatever started these tests, maybe in the background of a script.
        ours = signal.default_int_handler if heard else signal.SIG_IGN
        before = signal.signal(signal.SIGINT, ours)
        try:
            return subprocess.Popen(COMMAND, env=environment, **options)
        finally:
            signal.signal(signal.SIGINT, before)

    return start


@pytest.mark.parametrize("at", ["argparse", "pydantic"])
def test_ctrl_c_at_an_import(interrupted, at):
    """Of the command line itself, too."""
    process = interrupted(at=at, stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 130
    assert said == b"run_mse.py: interrupted; the same command goes on from here\n"


def test_in_the_background_ctrl_c_stays_unheard(interrupted):
    """As of a command that a script starts with `&`."""
    process = interrupted(heard=False, stderr=subprocess.PIPE)
    # Here the library is at fault, which lacks all that is imported from it.
    (line,) = process.communicate(timeout=600)[1].decode().splitlines()
    assert "internal error: ImportError: cannot import name" in line
    assert process.returncode == INTERNAL_ERROR


def test_a_screen_that_is_full_is_one_line_and_one_that_is_closed_none():
    with Path("/dev/full").open("w") as full:
        asked = subprocess.run(
            COMMAND, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    (line,) = asked.stderr.splitlines()
    assert (asked.returncode, "No space left on device" in line) == (2, True)
    reads, writes = os.pipe()
    os.close(reads)
    gone = subprocess.run(COMMAND, stdout=writes, stderr=subprocess.PIPE, check=False)
    os.close(writes)
    assert (gone.returncode, gone.stderr) == (0, b"")


def test_a_package_that_is_missing_is_one_line():
    """As when the command is started by a Python outside the project's environment."""
    outside = [sys.executable, "-S", *COMMAND[1:]]
    environment = {name: one for name, one in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(outside, env=environment, capture_output=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert re.search("run_mse.py: no package .* in .*; pip install '.' in the clone", line)


ENDINGS = [
    (FileNotFoundError(2, "No such file", "a.npz"), 2, "a.npz: No such file;"),
    (OSError(errno.ENAMETOOLONG, "Too long", "x" * 5000), 2, "x: Too long; sh"),
    (OSError(errno.ENOSPC, "No space left"), 2, "the disk: No space left; fr"),
    (MemoryError("8 TiB"), 2, "out of memory: MemoryError: 8 TiB; lower"),
    (InputError("seed = -1"), 2, "seed = -1"),
    (KeyboardInterrupt(), 130, "interrupted; the same command goes on"),
    (ZeroDivisionError("by zero"), 70, "internal error: ZeroDivisionError: by zero;"),
    (OSError("odd"), 70, "internal error: OSError: odd; details in"),
    (BaseException("odd"), 70, "internal error: BaseException: odd; details"),
    (SystemExit("enough"), 70, "internal error: SystemExit: enough"),
]


@pytest.mark.parametrize(("error", "status", "message"), ENDINGS)
def test_every_error_is_one_line(error, status, message, capsys):
    def command():
        raise error

    assert exit_status_of(command) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert len(line) < LONGEST_LINE
    if status == INTERNAL_ERROR:
        details = Path(line.rpartition("details in ")[2])
        assert "in command" in details.read_text()


def test_details_that_cannot_be_written(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    assert "no file (Not a directory; set TMPDIR)" in ending(ValueError("x")).line
