"""Processes that hold a model together: the numbers of one, and no endless wait."""

import numpy as np
import pytest

import run_mse
from models import write_checkpoint
from mse_lab.errors import InputError
from mse_lab.run import model_peers
from mse_lab.run.model_peers import ModelPeers
from mse_lab.scores import reference
from torchrun_starts import ours, torchrun

# Rank 1 is killed at its second prompt; or goes on where others still need it.
REWARD = """
import os, signal
from mse_lab.measurement import memory
from mse_lab.policy.sharding import SharedModel
from mse_lab.probe.rewards import integer
from mse_lab.run import model_peers
from mse_lab.scores.score_block import Scoring

seen = set()

if "SLICED" in os.environ:
    def in_slices(footprint, group):
        assert footprint.sliceable
        return [Scoring(group, layer=2, sliced=True)]

    memory.ways_of_scoring = in_slices

def killed(text, prompt):
    seen.add(prompt["id"])
    first = os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0"
    if first and os.environ["RANK"] == "1" and len(seen) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return integer(text, prompt)

def even(text, prompt):
    return float(sum(map(ord, text)) % 2 == 0)

def short(text, prompt):
    model_peers.LATE = 3
    if os.environ.get("RANK") == "1":
        SharedModel.serve = lambda self, watch: None
    return integer(text, prompt)
"""


@pytest.fixture
def start(write_probe, checkpoint, tmp_path, monkeypatch):
    """Return a function that makes an advice on a model, whole or held by two processes."""
    (tmp_path / "plugin.py").write_text(REWARD)
    monkeypatch.syspath_prepend(tmp_path)

    def run(command, reward, shard=None, adapter=None, path=checkpoint, **options):
        model = {"path": str(path), "device": "cpu", "dtype": "float64"}
        model |= {"shard": shard} if shard else {}
        model |= {"adapter": adapter} if adapter else {}
        probe = write_probe(
            "sharded" if shard else "whole",
            model=model,
            sampling={"max_new_tokens": 6},
            reward=f"plugin:{reward}",
        )
        budget = ["--budget", 80] if command == "advise" else []
        words = [command, probe, *budget, "--out", tmp_path / "out"]
        if shard:
            return torchrun(*words, folder=tmp_path, **options)
        return run_mse.main([*map(str, words)])

    return run


def numbers_of(folder):
    """All numbers in a folder's arrays but times, by file and name."""
    for path in sorted(folder.rglob("*.npz")):
        with np.load(path) as arrays:
            for name in arrays.files:
                if arrays[name].dtype.kind == "f" and "seconds" not in name:
                    yield f"{path.name} {name}", arrays[name]


def assert_same(whole, sharded):
    expected, found = dict(numbers_of(whole)), dict(numbers_of(sharded))
    assert expected.keys() == found.keys()
    assert len(expected) > 10
    for name, numbers in found.items():
        if "gradient_gap" in name:  # rounding errors of either
            assert np.isnan(numbers) or numbers < 1e-6
        else:
            np.testing.assert_allclose(
                numbers, expected[name], rtol=1e-10, atol=1e-12, err_msg=name
            )


@pytest.mark.slow
def test_two_processes_hold_a_model_one_lost_and_started_again(start, tmp_path):
    """Five prompts of unlike length: one process is through before the other."""
    done = start("advise", "killed", shard=2, max_restarts=1)
    assert done.returncode == 0, done.stderr
    assert start("advise", "killed") == 0
    whole, sharded = (tmp_path / "out" / name / "advice" for name in ("whole", "sharded"))
    assert_same(whole, sharded)


@pytest.mark.slow
def test_a_run_of_an_adapter_on_a_model_held_by_two(start, tmp_path, monkeypatch):
    """The reference runs prompts with their completions: in one process here, too."""
    pytest.importorskip("peft", reason="adapters need the extra lora")
    monkeypatch.setattr(reference, "is_sharded", lambda model: True)
    assert start("run", "integer", adapter={"rank": 2}) == 0
    done = start("run", "integer", shard=2, adapter={"rank": 2})
    assert done.returncode == 0, done.stderr
    assert_same(tmp_path / "out/whole", tmp_path / "out/sharded")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["qwen2", "llama", "gpt2"])
def test_logits_in_slices_and_layers_computed_again(start, tmp_path, kind):
    """The head is gathered outside the passes; beside whole logits in one process."""
    tied = kind != "llama"
    path = write_checkpoint(tmp_path / "model", architecture=kind, tied=tied)
    done = start("advise", "even", shard=2, path=path, SLICED="1")
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert start("advise", "even", path=path) == 0
    whole, sharded = (tmp_path / "out" / name / "advice" for name in ("whole", "sharded"))
    assert_same(whole, sharded)


@pytest.mark.slow
def test_a_process_that_does_not_come_is_seen(start):
    done = start("advise", "short", shard=2)
    assert done.returncode != 0
    (line,) = ours(done)
    assert "kept the others waiting for 3 s; the same command goes on from here" in line


class Never:
    """What another process never contributes to."""

    def is_completed(self):
        return False


def test_no_wait_is_endless(monkeypatch):
    monkeypatch.setattr(model_peers, "LATE", 0.1)
    heard = []
    peers = ModelPeers(None, lambda: heard.append("heed"))
    with pytest.raises(InputError, match=r"waiting for 0\.1 s; start again"):
        peers.wait(Never(), lambda: heard.append("watch"))
    assert heard[:2] == ["heed", "watch"]
