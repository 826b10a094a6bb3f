"""However a command ends, one line says so: on a real process, and at every door."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest

import run_mse
from mse_lab.console import (
    INTERNAL_ERROR,
    REQUIRED,
    Screen,
    command_prefix,
    conclude,
    ending,
)
from mse_lab.errors import LONGEST_LINE, InputError
from mse_lab.report import probe_list as listing
from mse_lab.results.files import write_bytes

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, str(ROOT / "run_mse.py")]

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
            return subprocess.Popen([*COMMAND, "list"], env=environment, **options)
        finally:
            signal.signal(signal.SIGINT, before)

    return start


def test_ctrl_c_before_the_console_is_there(interrupted):
    """While the command line itself is imported: no traceback; a shell says 130."""
    process = interrupted(at="argparse", stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (-signal.SIGINT, b"")


def test_ctrl_c_at_an_import(interrupted):
    process = interrupted(stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == b"run_mse.py: interrupted; the same command goes on from here\n"


def test_ctrl_c_waits_for_no_screen(interrupted):
    """Nobody reads what its pipe is full of."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    with suppress(BlockingIOError):
        while os.write(writes, b"x" * 4096):
            pass
    os.set_blocking(writes, True)
    assert interrupted(stderr=writes).wait(60) == 130
    os.close(reads)
    os.close(writes)


def test_in_the_background_ctrl_c_stays_unheard(interrupted):
    """As of a command that a script starts with `&`."""
    process = interrupted(heard=False, stderr=subprocess.PIPE)
    # Here the library is at fault, which lacks all that is imported from it.
    (line,) = process.communicate(timeout=60)[1].decode().splitlines()
    assert "internal error: ImportError: cannot import name" in line
    assert process.returncode == INTERNAL_ERROR


def test_a_run_whose_screen_is_gone_goes_on(write_probe, tmp_path):
    reads, writes = os.pipe()
    os.close(reads)
    with Path("/dev/full").open("w") as full:
        words = [*COMMAND, "run", str(write_probe()), "--out", str(tmp_path)]
        done = subprocess.run(words, stdout=full, stderr=writes, timeout=300, check=False)
        os.close(writes)
        asked = subprocess.run(
            [*COMMAND, "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert json.loads((tmp_path / "small/checks.json").read_text())["ok"]
    assert asked.returncode == 2
    (line,) = asked.stderr.splitlines()
    assert "standard output: No space left on device" in line


@pytest.mark.parametrize("device", ["/dev/full", None], ids=["full", "closed"])
def test_a_screen_drops_what_it_cannot_take(device):
    file = Path(device).open("w") if device else None  # noqa: SIM115
    with Screen.over(file) as screen:
        assert screen.write("half a line") == 11
        assert screen.mid_line
        assert screen.write(" \udcff whole\n") == 9
        assert not screen.mid_line
        screen.flush()
        assert (screen.lost is None) == (device is None)


def test_a_package_that_is_missing_is_one_line():
    """As when the command is started by a Python outside the project's environment."""
    outside = [sys.executable, "-S", *COMMAND[1:], "list"]
    environment = {name: one for name, one in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(outside, env=environment, capture_output=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert "run_mse.py: no package yaml in " in line
    assert "use .venv/bin/mse-lab, which make figure4 sets up, or install " in line


def test_what_is_required_is_what_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.match(r"\w+", one)[0] for one in project["dependencies"]}
    assert names - {"pyyaml"} | {"yaml"} == REQUIRED


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("run_mse.py", "python run_mse.py"),
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
    monkeypatch.setattr(sys, "argv", [first.format(here=tmp_path), "list"])
    assert command_prefix() == expected


ENDINGS = {
    "missing": (FileNotFoundError(2, "No such file", "a.npz"), 2, "a.npz: No such file;"),
    "long name": (
        OSError(errno.ENAMETOOLONG, "Too long", "x" * 5000),
        2,
        "x: Too long; sh",
    ),
    "full disk": (OSError(errno.ENOSPC, "No space left"), 2, "the disk: No space left; fr"),
    "memory": (MemoryError("8 TiB"), 2, "out of memory: MemoryError: 8 TiB; lower"),
    "key": (InputError("seed = -1"), 2, "seed = -1"),
    "interrupted": (KeyboardInterrupt(), 130, "interrupted; the same command goes on"),
    "ours": (
        ZeroDivisionError("by zero"),
        70,
        "internal error: ZeroDivisionError: by zero;",
    ),
    "nameless": (OSError("odd"), 70, "internal error: OSError: odd; details in"),
    "asked": (SystemExit("enough"), 70, "internal error: SystemExit: enough"),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_every_error_is_one_line(case, capsys):
    error, status, message = ENDINGS[case]

    def command():
        raise error

    assert conclude(command) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert len(line) < LONGEST_LINE
    if status == INTERNAL_ERROR:
        details = Path(line.rpartition("details in ")[2])
        assert "in command" in details.read_text()


def test_details_that_cannot_be_written(monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    assert "no file (Not a directory; set TMPDIR)" in ending(ValueError("x")).line


def test_nobody_foresaw_it(monkeypatch, capsys):
    def fail(*_):
        raise BaseException("odd")

    monkeypatch.setattr(listing, "list_probes", fail)
    assert run_mse.main(["list"]) == INTERNAL_ERROR
    (line,) = capsys.readouterr().err.splitlines()
    assert "internal error: BaseException: odd" in line


def test_nothing_half_written_is_left(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="cannot be written: No space"):
        write_bytes(tmp_path / "mse.csv", b"x")
    assert not list(tmp_path.iterdir())


def test_no_link_is_followed_when_a_file_is_written(tmp_path):
    """Somebody may have put one where the parts of files lie until they are whole."""
    (tmp_path / "theirs").write_text("theirs")
    for name in (".mse.csv.part", "mse.csv"):
        (tmp_path / name).symlink_to(tmp_path / "theirs")
    write_bytes(tmp_path / "mse.csv", b"ours")
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert (tmp_path / "mse.csv").read_bytes() == b"ours"
    assert not (tmp_path / ".mse.csv.part").is_symlink()
