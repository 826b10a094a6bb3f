"""Processes: one start at a time in a folder, and waits that end."""

import subprocess
import sys
from pathlib import Path

import pytest

import run_mse
from mse_lab.errors import InputError
from mse_lab.run.processes import LOCK, lock, wait_until

ROOT = Path(__file__).resolve().parents[2]


def test_lock_keeps_others_out_and_lets_go(tmp_path):
    with lock(tmp_path / "run"):
        with pytest.raises(InputError, match="another start"), lock(tmp_path / "run"):
            pass
        assert (tmp_path / "run" / LOCK).exists()
    with lock(tmp_path / "run"):
        pass
    assert not (tmp_path / "run" / LOCK).exists()


def test_a_lock_on_a_full_disk(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(InputError, match="No space left"), lock(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()


def test_lock_of_a_killed_start_is_free(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path; "
        "from mse_lab.run.processes import lock\n"
        "with lock(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, check=False)
    assert done.returncode == -9
    assert (tmp_path / LOCK).exists()
    with lock(tmp_path):
        pass


def test_two_starts_in_one_folder(write_probe, tmp_path, capsys):
    path, out = write_probe(), tmp_path / "out"
    with lock(out / "small"):
        assert run_mse.main(["run", str(path), "--out", str(out)]) == 2
    assert "another start is measuring there" in capsys.readouterr().err
    assert run_mse.main(["run", str(path), "--out", str(out)]) == 0


def test_waiting_looks_at_once_and_gives_up():
    assert wait_until(lambda: True, 0)
    assert not wait_until(lambda: False, 0)
    looks = iter([False, False, True])
    assert wait_until(lambda: next(looks), 10)
