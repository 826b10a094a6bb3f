"""Resume: what is measured is not measured again, unless it is spoilt."""

import os
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest

import run_mse
from mse_lab.errors import InputError
from mse_lab.results.files import write_arrays
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.inventory import MANIFEST
from mse_lab.run import plan, processes, resume
from mse_lab.run.prepare import load, prepare


def older(path):
    arrays = dict(np.load(path))
    write_arrays(path, {name: arrays[name] for name in arrays if name != "version"})


def flip(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"gram_KGG") + 200] ^= 1
    path.write_bytes(content)


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def flip_rewards(path):
    arrays = dict(np.load(path))
    write_arrays(path, arrays | {"rewards_N": 1 - arrays["rewards_N"]})


def anothers(path):
    shutil.copy(path.with_name("000001.npz"), path)


SPOILT = [anothers, older, flip, pipe, flip_rewards]


def test_spoilt_shards_are_measured_again(write_probe, tmp_path, monkeypatch, capsys):
    """All five, each spoilt in another way."""
    path, out, whole = write_probe(), tmp_path / "out", tmp_path / "whole"
    assert run_mse.main(["run", str(path), "--out", str(whole)]) == 0
    expected = (whole / "small/mse.csv").read_bytes()

    monkeypatch.setattr(plan, "ENOUGH", 5)
    assert run_mse.main(["plan", str(path), "--out", str(out)]) == 0
    shards = sorted((out / "small/shards").glob("*.npz"))
    for spoil, shard in zip(SPOILT, shards, strict=True):
        spoil(shard)
    capsys.readouterr()
    assert run_mse.main(["run", str(path), "--out", str(out)]) == 0
    said = capsys.readouterr().err
    assert "5 prompts are measured again" in said
    assert ", ".join(shard.name for shard in shards) in said
    assert (out / "small/mse.csv").read_bytes() == expected


def test_a_shard_that_another_machine_wrote_and_nobody_sees(probe, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", 0.0)
    context = load(prepare("small", probe, tmp_path / "out", tmp_path))
    with pytest.raises(InputError, match=r"0+\.npz: is gone, or cannot be seen from here"):
        resume.read_shards(context)


def test_a_shard_is_of_all_that_was_measured(probe, tmp_path):
    """Of the probe, its prompts, the prompt, the checkpoint and the reward."""
    context = load(prepare("small", probe, tmp_path / "out", tmp_path))
    spec, subject = context.spec, context.subject
    policy = replace(subject.policy, identity={"model": "another"})
    others = [
        replace(context, spec=replace(spec, probe=probe.model_copy(update={"seed": 1}))),
        replace(context, spec=replace(spec, digest="of other prompts")),
        replace(context, spec=replace(spec, code={"reward": "another"})),
        replace(context, subject=replace(subject, policy=policy)),
    ]
    origins = {one.origin(0) for one in (context, *others)} | {context.origin(1)}
    assert len(origins) == 6
    assert load(prepare("small", probe, tmp_path / "out", tmp_path)).origin(0) in origins


REWARD = "def reward(text, row):\n    row['answer'] = 0\n    return {}\n"


@pytest.fixture
def own_reward(tmp_path, monkeypatch):
    """Return a function that writes a reward of one's own, as a new start finds it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)

    def write(value):
        (tmp_path / "theirs.py").write_text(REWARD.format(value))
        sys.modules.pop("theirs", None)

    return write


def test_two_rewards_are_not_mixed(own_reward, write_probe, tmp_path, refused, monkeypatch):
    monkeypatch.setattr(plan, "ENOUGH", 1)
    own_reward("len(text) % 2")
    path, out = write_probe(reward="theirs:reward"), ("--out", tmp_path / "out")
    assert run_mse.main(["plan", str(path), *map(str, out)]) == 0
    own_reward("1 - len(text) % 2")
    for command in ("plan", "run"):
        said = refused(command, path, *out)
        assert "another configuration (it began with another reward)" in said
        assert "start over with --fresh" in said
    for command in ("plan", "run"):
        assert run_mse.main([command, str(path), *map(str, out), "--fresh"]) == 0
    own_reward("0.5")
    assert "it began with another reward" in refused("run", path, *out)


def test_what_followed_from_an_earlier_measurement_goes_with_it(write_probe, tmp_path):
    """As where committed tables are measured again: the advice of then goes."""
    path, out = write_probe(), tmp_path / "out"
    words = ["run", str(path), "--out", str(out)]
    assert run_mse.main(words) == 0
    (out / "small/pools.npz").unlink()
    (out / "small/advice.json").write_text('{"name": "small", "prompts": 5}')
    (out / "small/claims.csv").write_text("statement,kind,run,\n")
    (out / "small/claims.md").touch()
    assert run_mse.main(words) == 0
    for name in ("advice.json", "claims.csv"):
        assert not (out / "small" / name).exists()
    assert (out / "small/claims.md").exists()  # No command writes it: it is the user's.


def test_a_manifest_that_a_kill_came_before_is_written(write_probe, tmp_path, monkeypatch):
    path, out = write_probe(), tmp_path / "out"
    words = ["run", str(path), "--out", str(out)]

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ResultsFolder, "write_manifest", stop)
        assert run_mse.main(words) == 130
    results = ResultsFolder(out / "small")
    assert results.is_complete()
    assert not results.has(MANIFEST)
    assert run_mse.main(["plan", *words[1:]]) == 0
    assert results.has(MANIFEST)
    assert not results.finished_prompts()


def test_a_fresh_start_finds_no_old_shard(probe, tmp_path):
    """Also where they lie elsewhere, by a link."""
    results, elsewhere = ResultsFolder(tmp_path / "out"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    results.path.mkdir()
    results.file("shards").symlink_to(elsewhere)
    context = load(prepare("small", probe, results.path, tmp_path))
    assert resume.begin_or_resume(context, fresh=False) == [0, 1, 2, 3, 4]
    resume.measure_and_keep(context, 0)
    (elsewhere / "notes").write_text("mine")
    assert resume.begin_or_resume(context, fresh=False) == [1, 2, 3, 4]
    assert resume.begin_or_resume(context, fresh=True) == [0, 1, 2, 3, 4]
    assert [one.name for one in elsewhere.iterdir()] == ["notes"]
    results.shard(2).mkdir()
    with pytest.raises(InputError, match=r"shards: cannot be emptied; remove what it"):
        resume.begin_or_resume(context, fresh=True)
    with pytest.raises(InputError, match=r"000002\.npz: cannot be removed"):
        resume.begin_or_resume(context, fresh=False)
