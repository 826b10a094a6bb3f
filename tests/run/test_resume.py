"""The start of a run, its going on and its end: nothing is measured in vain, or twice."""

import json
import platform
import shutil
import subprocess

import pytest
import torch

import run_mse
from measurements import change
from mse_lab.errors import InputError
from mse_lab.results.folder import ResultsFolder
from mse_lab.run import loop, run_probe
from mse_lab.run.context import load
from mse_lab.run.processes import Processes
from mse_lab.run.prompt import measure_prompt
from mse_lab.run.run_probe import finish, name_commit
from mse_lab.run.subject import prepare


def test_processes_that_are_about_different_things(probe, tmp_path):
    class Second(Processes):
        def agree(self, decide):
            return "what process 0 was given"

    with pytest.raises(InputError, match="not those of process 0"):
        prepare("small", probe, tmp_path / "out", tmp_path, Second())


def test_what_was_made_of_a_run_stays_where_that_is_measured_again(write_probe, tmp_path):
    """As of committed tables; of what lies there without any, it is another run's."""
    path, folder = write_probe(), tmp_path / "out/small"
    words = ["run", str(path), "--out", str(tmp_path / "out")]
    folder.mkdir(parents=True)
    made = {"advice.json": '{"name": "small", "prompts": 5}', "claims.md": "mine"}
    for name, text in made.items():
        (folder / name).write_text(text)
    assert run_mse.main(words) == 0
    assert not (folder / "advice.json").exists()
    assert (folder / "claims.md").exists()  # No command writes it: it is the user's.
    assert run_mse.main(["advise", str(folder)]) == 0
    advice = (folder / "advice.json").read_text()
    (folder / "pools.npz").unlink()
    assert run_mse.main(words) == 0
    assert (folder / "advice.json").read_text() == advice
    # The pools answer anew, but another question does not replace what is kept.
    (folder / "advice.json").write_text(advice.replace('"prompts": ', '"prompts": 1'))
    assert run_mse.main(["advise", str(folder), "--regret", "0.2"]) == 0
    assert (folder / "advice.json").read_text() != advice
    assert run_mse.main(["advise", str(folder)]) == 0
    assert (folder / "advice.json").read_text() == advice


@pytest.mark.parametrize("at", ["write_end", "drop_shards"])
def test_a_kill_while_the_result_is_written(at, write_probe, tmp_path, monkeypatch):
    """Before the pools, which are written last, and after them."""
    path, out = write_probe(), tmp_path / "out"
    words = ["run", str(path), "--out", str(out)]

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ResultsFolder, at, stop)
        assert run_mse.main(words) == 130
    results = ResultsFolder(out / "small")
    assert results.is_complete() == (at == "drop_shards")
    monkeypatch.setattr(run_probe, "measure_prompt", None)
    assert run_mse.main(words) == 0
    assert results.is_complete()
    assert not results.finished_prompts()


@pytest.mark.parametrize("command", ["run", "advise"])
def test_a_folder_that_vanishes_under_way(
    command, write_probe, tmp_path, monkeypatch, refused
):
    """One line, and nothing of it that the same command would refuse."""
    words = [command, write_probe(), "--out", tmp_path / "out"]
    save = loop.save_shard

    def vanish(*given):
        save(*given)
        shutil.rmtree(tmp_path / "out")

    with monkeypatch.context() as patched:
        patched.setattr(loop, "save_shard", vanish)
        said = refused(*words)
    assert "has vanished under way; the same command begins anew" in said
    assert not (tmp_path / "out").exists()
    assert run_mse.main([*map(str, words)]) == 0


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
    assert "commit" in found
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
