"""Plan: its prompts are the run's, measured once; it foretells what the run does."""

import json

import numpy as np
import pytest

import run_mse
from mse_lab.probe.probe_files import load_probe
from mse_lab.results.extrapolation import LEAST_FACTOR, UNKNOWN_FACTOR
from mse_lab.run import plan as planning
from mse_lab.run import resume
from mse_lab.run.plan import choose, plan_probe
from mse_lab.run.prepare import prepare
from mse_lab.run.processes import SINGLE_PROCESS
from mse_lab.run.run_probe import execute


@pytest.fixture
def planned(probe, tmp_path):
    return plan_probe(prepare("small", probe, tmp_path / "out", tmp_path))


@pytest.fixture
def measured(monkeypatch):
    """The prompts that are measured, as they are."""
    found, measure = [], resume.measure_prompt

    def noted(context, index, **keywords):
        found.append(index)
        return measure(context, index, **keywords)

    monkeypatch.setattr(resume, "measure_prompt", noted)
    return found


def results(folder):
    """What a run has written, but for where and when."""
    paths = (path for path in folder.iterdir() if path.is_file())
    unlike = ("environment.json", "manifest.json")
    return {path.name: path.read_bytes() for path in paths if path.name not in unlike}


def test_nothing_is_measured_twice(probe, tmp_path, measured, monkeypatch):
    """Two plans and a run make what a run alone makes, to the byte."""
    execute(prepare("small", probe, tmp_path / "alone", tmp_path))
    expected, both = results(tmp_path / "alone"), tmp_path / "both"
    measured.clear()
    for enough, so_far in ((2, 2), (4, 4)):
        monkeypatch.setattr(planning, "ENOUGH", enough)
        plan = plan_probe(prepare("small", probe, both, tmp_path))
        assert plan.prompts_measured == len(measured) == so_far
    # Of 1 to 4 tokens: the longest, then those of the median.
    assert measured[0] == 4
    execute(prepare("small", probe, both, tmp_path))
    assert sorted(measured) == list(range(5))
    assert results(both) == expected


def test_what_is_measured_already_is_enough(probe, tmp_path, measured, monkeypatch):
    """But one prompt more, as long as there is one."""
    monkeypatch.setattr(planning, "ENOUGH", 1)
    for so_far in (1, 2, 3, 4, 5, 5):
        plan = plan_probe(prepare("small", probe, tmp_path / "out", tmp_path))
        assert plan.prompts_measured == len(measured) == so_far


def test_a_slow_prompt_is_enough(probe, tmp_path, measured, monkeypatch):
    monkeypatch.setattr(planning, "TIME_LIMIT", 0.0)
    plan = plan_probe(prepare("small", probe, tmp_path / "out", tmp_path))
    assert measured == [4]
    assert plan.factor == UNKNOWN_FACTOR


def test_completions_and_tokens_are_the_run_s(probe, planned, tmp_path):
    """All five prompts are measured: the tokens are exact, too."""
    folder = tmp_path / "out"
    execute(prepare("small", probe, folder, tmp_path))
    lines = (folder / "completions.jsonl").read_text().splitlines()
    lengths = [json.loads(line)["length"] for line in lines]
    assert planned.completions == len(lines) == 5 * (64 + 32)
    assert planned.tokens == pytest.approx(sum(lengths))
    # Five prompts: 8 completions of each, and after eight looks 271.
    assert planned.advising[:2] == (5 * 8, 5 * 271)
    assert planned.advising.seconds_each > 0
    assert planned.peak_memory_bytes > planned.disk_bytes > 0


def test_the_longest_then_the_middle():
    lengths = [*range(20), 3, 3]
    order = choose(lengths, range(22), seed=0)
    assert order[0] == 19
    distances = np.abs(np.array(lengths)[order[1:]] - np.median(lengths))
    assert (np.diff(distances) >= 0).all()
    assert choose(lengths, [2, 9, 4], seed=0) == [9, 4, 2]
    assert choose(lengths, [], seed=0) == []


def test_the_work_of_choosing_does_not_grow_with_the_square():
    """The prompts that are left are gone through once, not once for each prompt."""
    passes = []

    class Todo(list):
        def __iter__(self):
            passes.append(self)
            return super().__iter__()

    assert len(choose([7] * 100, Todo(range(100)), seed=0)) == 100
    assert len(passes) == 1


def test_equal_lengths_are_taken_from_anywhere():
    firsts = {choose([7] * 100, range(100), seed)[0] for seed in range(10)}
    assert len(firsts) > 5


def test_a_finished_run_is_left_as_it_is(probe, tmp_path, measured, capsys, write_probe):
    folder = tmp_path / "out/small"
    execute(prepare("small", probe, folder, tmp_path))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    measured.clear()
    path = write_probe(sampling={"max_new_tokens": 6})
    words = ["plan", str(path), "--out", str(folder.parent)]
    assert run_mse.main(words) == 0
    assert "small: finished, nothing to do" in capsys.readouterr().out
    assert run_mse.main([*words, "--json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert plan == {"probe": "small", "finished": True, "repaired": []}
    assert not measured
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert run_mse.main([*words, "--set", "seed=5"]) == 2
    assert "belongs to another configuration (seed is 0 there" in capsys.readouterr().err


def test_one_start_at_a_time(tmp_path, write_probe, capsys):
    path = write_probe()
    with SINGLE_PROCESS.locked(tmp_path / "out/small"):
        assert run_mse.main(["plan", str(path), "--out", str(tmp_path / "out")]) == 2
    assert "another start is measuring there" in capsys.readouterr().err


def test_supplied_completions_are_not_drawn(write_probe, tmp_path, supplied_file):
    probe = load_probe(write_probe(completions=supplied_file))
    plan = plan_probe(prepare("small", probe, tmp_path / "out", tmp_path))
    assert plan.completions == 5 * 96
    assert plan.seconds["checks and records"] > 0


@pytest.fixture
def supplied_file(tmp_path):
    """Completions of the small probe, drawn elsewhere: no law of their own is claimed."""
    generator = np.random.default_rng(0)
    path = tmp_path / "drawn.jsonl"
    with path.open("w") as file:
        for prompt in range(5):
            for _ in range(96):
                tokens = [int(generator.integers(1, 4)), 0]
                file.write(json.dumps({"prompt": f"p{prompt}", "tokens": tokens}) + "\n")
    return str(path)


@pytest.mark.parametrize("prompts", [1, 2])
def test_few_prompts(prompts, write_probe, tmp_path):
    """Also where estimators look at other prompts, of which a plan measures one."""
    probe = load_probe(write_probe(), [f"prompts.limit={prompts}"])
    plan = plan_probe(prepare("small", probe, tmp_path / "out", tmp_path))
    assert plan.completions == prompts * 96
    assert plan.factor == LEAST_FACTOR


def test_estimators_that_look_at_other_prompts(write_probe, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "ENOUGH", 1)
    probe = load_probe(write_probe(estimators=["grpo", "global-mean"]))
    plan = plan_probe(prepare("small", probe, tmp_path / "out", tmp_path))
    assert {key.estimator for key in plan.half_widths} == {"grpo", "global-mean"}
