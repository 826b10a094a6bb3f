"""Several processes: the same bytes as one, and one line when something is wrong."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import distributed

import run_mse
from mse_lab.config.probe_files import load_probe
from mse_lab.console import INPUT_ERROR, Ending, started_by_torchrun
from mse_lab.errors import InputError
from mse_lab.results.checks import Check, Checks
from mse_lab.run import torchrun as several
from mse_lab.run.processes import LOCK, lock
from mse_lab.run.run_probe import Outcome
from mse_lab.run.torchrun import TorchrunProcesses
from torchrun_starts import ROOT


def test_one_process_joins_nothing(write_probe, tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "init_process_group", None)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert not started_by_torchrun()
    assert run_mse.main(["run", str(write_probe()), "--out", str(tmp_path / "out")]) == 0
    # What torchrun starts alone is alone too; a bare RANK in the environment means nothing.
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert not started_by_torchrun()


class Unmet(TorchrunProcesses):
    """Processes on one store that need not wait for each other: here they take turns."""

    def barrier(self):
        self._barriers += 1


@pytest.fixture
def pair():
    """Two processes of one run, without gloo."""
    store = distributed.HashStore()
    return [Unmet(store, rank) for rank in range(2)]


def test_a_restart_is_refused(monkeypatch):
    """The store still has what the lost start has dealt."""
    monkeypatch.setattr(several, "end_with_parent", lambda _: None)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    with pytest.raises(InputError, match="start the same command again"):
        several.join(print).__enter__()


def test_the_first_decides_by_json_and_everything_is_dealt_once(pair):
    check = Check("a", float("nan"), 1.0, None)
    found = Outcome(Checks(True, [check], ["c"]), None, True, ["mse.csv"])
    shown = [
        pair[0].agree(lambda: found, Outcome | None),
        pair[1].agree(lambda: pytest.fail("not asked"), Outcome | None),
    ]
    assert [repr(one) for one in shown] == [repr(found)] * 2
    # Anybody who reaches the store can write to it: what is read from it runs nothing.
    pair[0]._store.set("decision/1", pickle.dumps(print).hex())
    with pytest.raises(json.JSONDecodeError):
        pair[1].agree(lambda: None)
    shares = [one.deal(10) for one in pair]
    first = [next(shares[0]), next(shares[1]), next(shares[0])]
    assert sorted([*first, *shares[1], *shares[0]]) == [*range(10)]
    # The next probe is dealt anew.
    assert [list(one.deal(1)) for one in reversed(pair)] == [[0], []]


def test_one_complains_and_all_end(pair, monkeypatch):
    """Also of what nobody foresaw: none waits for what will not come."""
    monkeypatch.setattr(several, "COURTESY", 0.1)
    monkeypatch.setattr(several, "_connect", lambda: pair[1])
    monkeypatch.setattr(distributed, "destroy_process_group", lambda: None)
    said = []
    with pytest.raises(SystemExit, match="70"), several.join(said.append):
        raise ZeroDivisionError("by zero")
    pair[0].complain(said.append, Ending(2, "that is wrong"))
    (line,) = said
    assert "internal error: ZeroDivisionError: by zero" in line
    with pytest.raises(SystemExit, match=str(INPUT_ERROR)):
        next(pair[0].deal(1))


class Closed:
    """A store whose process is gone."""

    def add(self, *_):
        raise RuntimeError("Connection closed by peer")


def test_a_lost_process_is_told_in_one_line(pair, monkeypatch):
    monkeypatch.setattr(distributed, "destroy_process_group", lambda: None)
    said = []
    for one in pair:
        monkeypatch.setattr(several, "_connect", lambda one=one: one)
        one._store = Closed()
        with pytest.raises(SystemExit, match="130"), several.join(said.append):
            next(one.deal(1))
    assert said == ["a process was lost; the same command goes on from here"]


def test_machines_without_a_shared_folder(pair, tmp_path, monkeypatch):
    monkeypatch.setattr(several, "PATIENCE", 0.1)
    with pair[0].locked(tmp_path / "here"), pair[1].locked(tmp_path / "here"):
        pass
    (tmp_path / "there").mkdir()
    pair[0].agree(lambda: "the mark of here")
    elsewhere = pair[1].locked(tmp_path / "there")
    with lock(tmp_path / "there"), pytest.raises(InputError, match="machines share"):
        elsewhere.__enter__()


# What the probe says, GPUs of the machine, rank and processes there, and what it gets.
PLACES = {
    "no GPU": ({}, 0, 1, 2, "auto"),
    "its own": ({}, 2, 1, 2, "cuda:1"),
    "cuda": ({"device": "cuda"}, 8, 0, 2, "cuda:0"),
    "as named": ({"device": "cuda:0"}, 2, 1, 2, "cuda:0"),
    "cpu": ({"device": "cpu"}, 2, 1, 2, "cpu"),
    "too many": ({}, 1, 1, 2, r"--nproc-per-node 2: .* machine: 1;"),
    "all": ({"device_map": "auto"}, 4, 0, 1, "auto"),
    "all, twice": ({"device_map": "auto"}, 4, 0, 2, "takes all GPUs"),
}


@pytest.mark.parametrize(
    ("model", "gpus", "rank", "here", "place"), PLACES.values(), ids=PLACES
)
def test_every_process_has_its_own_gpu(
    pair, write_probe, monkeypatch, model, gpus, rank, here, place
):
    probe = load_probe(write_probe())
    probe = probe.model_copy(
        update={"model": probe.model.model_copy(update={"device": "auto", **model})}
    )
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setenv("LOCAL_RANK", str(rank))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(here))
    if place.startswith(("auto", "cuda", "cpu")):
        assert pair[1].assign_device(probe).model.device == place
    else:
        with pytest.raises(InputError, match=place):
            pair[1].assign_device(probe)


# A parent that is killed once its child watches; the child sleeps, and would print later.
ORPHAN = """
import os, signal, subprocess, sys, time
from mse_lab.run.processes import end_with_parent
if len(sys.argv) > 1:
    end_with_parent(130)
    print("watching", flush=True)
    time.sleep(600)
else:
    child = [sys.executable, __file__, "child"]
    subprocess.Popen(child, stdout=subprocess.PIPE, stderr=2).stdout.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_ends_with_its_parent(tmp_path):
    """What reads its error stream hears the end of it only then."""
    (tmp_path / "orphan.py").write_text(ORPHAN)
    done = subprocess.run(
        [sys.executable, tmp_path / "orphan.py"],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=500,
        check=False,
    )
    assert (done.returncode, done.stderr) == (-9, b"")


def test_one_start_at_a_time_in_a_folder(write_probe, tmp_path, refused, monkeypatch):
    """A full disk leaves none out."""
    path, out = write_probe(), tmp_path / "out"
    with lock(out / "small"):
        assert (out / "small" / LOCK).exists()
        line = refused("run", path, "--out", out)
        assert "another start is measuring there" in line
    assert not (out / "small" / LOCK).exists()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(InputError, match="No space left"), lock(out):
        pass
    assert not (out / LOCK).exists()
