"""Finish: what is written of a run that several processes shared."""

import json
import platform
import subprocess

import torch

from measurements import change
from mse_lab.run.context import load
from mse_lab.run.prompt import measure_prompt
from mse_lab.run.run_probe import finish, name_commit
from mse_lab.run.subject import prepare


def test_each_process_s_time_and_device_are_told(probe, tmp_path):
    """Seconds are those of the slowest; a device that two share is named once."""
    out = tmp_path / "out"
    subject = load(prepare("small", probe, out, tmp_path))
    prompts, threads = [], torch.get_num_threads()
    for index in range(5):
        rank = index % 2
        changes = {"seconds": 1 + 10.0 * rank, "threads": threads + rank, "process": rank}
        where = {"device": "AB"[rank], "peak_memory": index}
        prompts.append(change(measure_prompt(subject, index), **changes, **where))
    outcome = finish(subject, prompts)
    found = json.loads((out / "environment.json").read_text())
    assert (found["seconds"], found["processes"]) == (22.0, 2)
    assert (found["device_model"], found["peak_memory_bytes"]) == ("A; B", 4)
    assert found["peak_device_memory_bytes"] is None
    assert found["threads"] == [threads, threads + 1]
    assert "byte-identical for the same" in found["repeatability"]
    assert {"mse_lab", "torch", "numpy"} <= set(found["versions"])
    assert platform.node() not in json.dumps(found)
    assert not outcome.finished_before
    assert subject.folder.is_complete()
    assert not (out / "shards").exists()


def git(folder, *words):
    author = ["-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", "-C", folder, *author, *words], check=True, capture_output=True)


def test_the_commit_is_named_and_changed_code_is_dirty(tmp_path):
    assert name_commit(tmp_path) is None
    (tmp_path / "run_mse.py").write_text("")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    clean = name_commit(tmp_path)
    assert len(clean) == 12
    # A wheel that is installed inside somebody's checkout is not of that commit.
    inside = tmp_path / "environment/mse_lab"
    inside.mkdir(parents=True)
    assert name_commit(inside) is None
    # A result that lies there is no change of the code.
    (tmp_path / "results.csv").write_text("1")
    assert name_commit(tmp_path) == clean
    (tmp_path / "run_mse.py").write_text("pass")
    assert name_commit(tmp_path) == f"{clean}-dirty"
