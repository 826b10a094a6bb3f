"""Finish: what is written of a run that several processes shared."""

import json
import platform
import subprocess

import pytest
import torch

from measurements import change
from mse_lab.run.context import load
from mse_lab.run.finish import (
    describe_environment,
    device_model,
    finish,
)
from mse_lab.run.prompt import measure_prompt
from mse_lab.run.subject import prepare


def test_each_process_s_time_and_device_are_told(probe, tmp_path):
    """Seconds are those of the slowest; a device that two share is named once."""
    out = tmp_path / "out"
    subject = load(prepare("small", probe, out, tmp_path))
    seconds = [0.0, 0.0, 0.0]
    prompts = []
    for index in range(5):
        rank = index % 2
        prompt = measure_prompt(subject, index)
        how = prompt.provenance
        slower = {"seconds": how.seconds + 10 * rank, "threads": how.threads + rank}
        slower["process"] = rank
        prompts.append(change(prompt, **slower))
        seconds[rank] += prompts[-1].provenance.seconds
    outcome = finish(subject, prompts, ["A", "B", "A"], peak_memory=7)
    found = json.loads((out / "environment.json").read_text())
    assert found["process_seconds"] == pytest.approx(seconds, abs=0.051)
    assert found["seconds"] == pytest.approx(seconds[1], abs=0.051)
    assert (found["device_model"], found["processes"]) == ("A; B", 3)
    threads = torch.get_num_threads()
    assert found["threads"] == [threads, threads + 1]
    assert "byte-identical for the same" in found["repeatability"]
    assert (found["peak_memory_bytes"], found["prompts"]) == (7, 5)
    assert not outcome.finished_before
    assert subject.folder.is_complete()
    assert not (out / "shards").exists()


def git(folder, *words):
    author = ["-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", "-C", folder, *author, *words], check=True, capture_output=True)


def commit_of(folder):
    return describe_environment(folder, torch.device("cpu"))["commit"]


def test_the_commit_is_named_and_changed_code_is_dirty(tmp_path):
    assert commit_of(tmp_path) is None
    (tmp_path / "run_mse.py").write_text("")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    clean = commit_of(tmp_path)
    assert len(clean) == 12
    # A wheel that is installed inside somebody's checkout is not of that commit.
    inside = tmp_path / "environment/mse_lab"
    inside.mkdir(parents=True)
    assert commit_of(inside) is None
    # A result that lies there is no change of the code.
    (tmp_path / "results.csv").write_text("1")
    assert commit_of(tmp_path) == clean
    (tmp_path / "run_mse.py").write_text("pass")
    assert commit_of(tmp_path) == f"{clean}-dirty"


def test_what_is_described(tmp_path):
    found = describe_environment(tmp_path, torch.device("cpu"))
    assert found["device_model"] == device_model(torch.device("cpu")) != ""
    assert found["peak_device_memory_bytes"] is None
    assert {"mse_lab", "torch", "numpy"} <= set(found["versions"])
    assert platform.node() not in json.dumps(found)
