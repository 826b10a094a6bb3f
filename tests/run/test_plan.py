"""Plan: its prompts are the run's, measured once; it foretells what the run does."""

import json

import pytest

import run_mse
from mse_lab.run import memory, run_probe
from mse_lab.run.plan import plan_probe
from mse_lab.run.prepare import prepare
from mse_lab.run.run_probe import execute_run


@pytest.fixture
def measured(monkeypatch):
    """The prompts that are measured, as they are."""
    found, measure = [], run_probe.measure_prompt

    def noted(subject, index, process):
        found.append(index)
        return measure(subject, index, process)

    monkeypatch.setattr(run_probe, "measure_prompt", noted)
    return found


def results(folder):
    """What a run has written, but for where and when."""
    paths = (path for path in folder.iterdir() if path.is_file())
    return {
        path.name: path.read_bytes() for path in paths if path.name != "environment.json"
    }


def test_nothing_is_measured_twice(probe, tmp_path, measured):
    """Two plans and a run make what a run alone makes, to the byte."""
    execute_run(prepare("small", probe, tmp_path / "alone", tmp_path))
    expected, both = results(tmp_path / "alone"), tmp_path / "both"
    measured.clear()
    for _ in range(2):
        plan = plan_probe(prepare("small", probe, both, tmp_path))
        # Of 3, 2, 2, 1 and 4 tokens: the longest, and the first of the median.
        assert measured == [4, 1]
    assert (plan.prompts, plan.prompts_measured) == (5, 2)
    assert plan.completions == 3 * (64 + 32)
    assert 0 < plan.seconds <= plan.seconds_high
    # The peak is the whole process's, so it may be that of another test.
    assert min(plan.budget_bytes, plan.peak_memory_bytes) > 0
    assert "as the model gets it" in plan.first_prompt[0]
    execute_run(prepare("small", probe, both, tmp_path))
    assert sorted(measured) == list(range(5))
    assert results(both) == expected


def test_the_screen_and_json(write_probe, tmp_path, measured, capsys, monkeypatch):
    """Of a probe with one prompt, of one whose blocks do not fit, and of a finished one."""
    words = ["plan", str(write_probe()), "--out", str(tmp_path), "--set", "prompts.limit=1"]
    assert run_mse.main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "small: 1 prompts, 1 of them measured and kept for the run; 0 compl" in said
    assert "first prompt, p0, as the model gets it: " in said
    with monkeypatch.context() as patched:
        patched.setattr(memory, "ways_by_rules", lambda *_: [])
        assert run_mse.main([*words[:4], "--fresh", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["completions"] == 3 * (64 + 32)
    assert any("a block does not fit in model.memory" in text for text in plan["warnings"])
    assert run_mse.main(["run", *words[1:], "--fresh"]) == 0
    measured.clear()
    capsys.readouterr()
    assert run_mse.main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"probe": "small", "finished": True}
    assert not measured


def test_several_processes_are_refused(monkeypatch, refused):
    monkeypatch.setattr("mse_lab.commands.plan.started_by_torchrun", lambda: True)
    assert "plan needs one process" in refused("plan", "tiny/base")
