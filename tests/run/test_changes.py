"""Stale answers: what has changed since a run was made is said first, by every reader."""

import json
import shutil
import sys

import pytest

import run_mse
from mse_lab.project import PROJECT
from mse_lab.run.changes import find_changes

REWARD = """import graded_beside
def reward(text, row):
    return len(text) % 2
"""
READERS = ["advise", "claims", "figure", "report"]


@pytest.fixture
def made(write_probe, tmp_path, checkpoint, monkeypatch):
    """A finished run of one's own files, all in one folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    shutil.copytree(checkpoint, "model")
    (tmp_path / "own.py").write_text(REWARD)
    (tmp_path / "graded_beside.py").write_text("LIMIT = 1\n")
    probe = write_probe(model={"path": "model", "device": "cpu"}, reward="own:reward")
    assert run_mse.main(["run", str(probe)]) == 0
    return tmp_path


def edit(name, old, new):
    """Replace a text of a file, once."""

    def change(folder):
        content = (folder / name).read_text()
        assert old in content
        (folder / name).write_text(content.replace(old, new, 1))
        sys.modules.pop("own", None)

    return change


def change_weights(folder):
    """Change the last digit of a weight."""
    path = folder / "model/model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-4] + bytes([content[-4] ^ 1]) + content[-3:])


def of(part):
    return f"since then changed: {part}", f"it began with another {part}"


SETTING = (
    "settings other than in small.yaml: pool.reference = 64, there 16",
    "pool.reference is 64 there, 16 here",
)

# What is changed -> what readers say of it, and the same run that is started again.
CHANGES = {
    "settings": (edit("small.yaml", "reference: 64", "reference: 16"), *SETTING),
    "weights": (change_weights, *of("model")),
    "tokenizer": (edit("model/tokenizer.json", "{", "{ "), *of("model")),
    "prompts": (edit("prompts.jsonl", "digits", "letters"), *of("set of prompts")),
    "reward": (edit("own.py", "% 2", "% 3"), *of("reward")),
    "what the reward imports": (edit("graded_beside.py", "1", "2"), *of("reward")),
}


def put(command, capsys, *words):
    capsys.readouterr()
    out = ["--out", "f.svg"] if command == "figure" else []
    assert run_mse.main([command, "results/small", *out, *words]) == 0
    return capsys.readouterr()


@pytest.mark.parametrize("what", CHANGES)
def test_what_has_changed_is_the_first_line(what, made, capsys, refused):
    """Of every answer; and the same run is refused, for it would go on from it."""
    change, said, line = CHANGES[what]
    change(made)
    for command in READERS:
        made_on, middle, remedy = put(command, capsys).out.splitlines()[0].split("; ")
        assert made_on.startswith("results/small was measured on 20")
        assert middle == said
        assert remedy.endswith(" run PROBE --fresh measures anew")
    message = refused("run", "small.yaml")
    assert line in message
    assert "--fresh" in message
    assert said in (made / "results/small/report.html").read_text()
    warnings = json.loads(put("advise", capsys, "--json").out)["warnings"]
    assert f"; {said}; " in warnings[0]
    kept = json.loads((made / "results/small/advice.json").read_text())
    assert not any("since then" in warning for warning in kept["warnings"])


def test_what_is_not_here_is_not_compared(made, capsys):
    """As of a committed run in a clone, whose weights are elsewhere."""
    for path in (made / "model", made / "prompts.jsonl", made / "own.py"):
        path.rename(path.with_suffix(".away"))
    sys.modules.pop("own", None)
    (made / "small.yaml").unlink()
    for command in READERS:
        shown = put(command, capsys)
        assert "since then changed" not in shown.out
        [note] = [line for line in shown.err.splitlines() if "not compared since: " in line]
        assert note.endswith(": its probe, model, set of prompts, reward")


def test_no_committed_run_is_said_to_have_changed():
    """Their probes, prompts and rewards are here; the pretrained weights perhaps."""
    results = PROJECT / "results"
    runs = [mark.parent for mark in results.rglob("checkpoint.json")]
    assert len(runs) > 10
    for run in runs:
        changes = find_changes(run, run.relative_to(results).as_posix(), PROJECT)
        assert changes.changed == ""
        away = "smollm2" in str(run) and not (PROJECT / "probes/smollm2/model").exists()
        assert ("not compared since: model" in changes.unknown) is away


def test_an_advice_of_another_model_is_not_reused(made, write_probe, carry_out, refused):
    """Neither by `advise P`, which would go on with it, nor in a line beside others."""
    own = {"model": {"path": "model", "device": "cpu"}, "reward": "own:reward"}
    longer = own | {"sampling": {"max_new_tokens": 6}}
    names = [write_probe(name, **longer) for name in ("one", "two")]
    for name in names:
        carry_out("advise", name, "--budget", 60)
    carry_out("advise", *names)
    change_weights(made)
    assert "it began with another model" in refused("advise", names[0])
    line = refused("advise", *names)
    assert "since then changed: model; " in line
    assert "advise PROBE --fresh measures anew" in line
