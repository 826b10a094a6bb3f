"""`mse-lab advise` of checkpoints, a line each."""

import json

import pytest

from models import write_adapter, write_checkpoint


@pytest.fixture
def saved(tmp_path, checkpoint):
    """What a trainer saved after 2 steps, as a whole model, and after 10, as an adapter."""
    write_checkpoint(tmp_path / "out/checkpoint-2", seed=2)
    write_adapter(checkpoint, tmp_path / "out/checkpoint-10")
    return tmp_path / "out/checkpoint-*"


def test_a_line_for_each_checkpoint(fifty, saved, tmp_path, carry_out):
    """Each is an ordinary advice, which a second start finds, and any other command."""
    words = ["--checkpoints", saved, "--budget", 384, "--out", tmp_path / "results"]
    said = carry_out("advise", fifty, *words, "--completions-per-step", 64)
    heads, *lines = said.splitlines()
    assert " ".join(heads.split()) == "step reward G* progress at N = 64 verdict"
    assert [line.split()[0] for line in lines[:2]] == ["2", "10"]
    folder = tmp_path / "results/small/checkpoints"
    drawn = {path: path.stat().st_mtime_ns for path in folder.rglob("*.npz")}
    assert {path.parts[-3] for path in drawn} == {"checkpoint-2", "checkpoint-10"}
    shown = json.loads(carry_out("advise", fifty, *words, "--json"))
    assert drawn == {path: path.stat().st_mtime_ns for path in folder.rglob("*.npz")}
    # The first alone, as a probe of its own.
    alone = ["--set", f"model.path={saved.parent / 'checkpoint-2'}", "--budget", 384]
    alone += ["--out", tmp_path / "alone", "--json"]
    first = json.loads(carry_out("advise", fifty, *alone))
    kept = [folder / f"checkpoint-{step}" for step in (2, 10)]
    at_two = {"step": "2", "name": "small/checkpoints/checkpoint-2"}
    assert shown[0] == first | at_two
    again = json.loads(carry_out("advise", *kept, "--json"))
    assert [one["run"] for one in again] == [*map(str, kept)]
    assert [one["c3"] for one in again] == [one["c3"] for one in shown]


def test_a_checkpoint_without_an_answer_does_not_end_the_others(
    fifty, saved, tmp_path, carry_out, monkeypatch
):
    (tmp_path / "theirs.py").write_text("def reward(text, row):\n    return 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    words = ["--set", "reward=theirs:reward", "--budget", 384, "--out", tmp_path]
    said = carry_out("advise", fifty, "--checkpoints", saved, *words)
    assert said.count("no advice") == 2
    assert "rewards differ within 0 of 32 prompts" in " ".join(said.split())
