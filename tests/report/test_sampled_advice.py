"""The advice of samples: what is written of it, and what is said where there is none."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mse_lab.errors import InputError
from mse_lab.mse.verdict import Question, decide
from mse_lab.probe.probe_files import parse_probe
from mse_lab.report.sampled_advice import advise_sampled_run, as_run, write_sampled_advice
from populations import choose, population

PROBE = parse_probe(
    {
        "model": {"path": "none"},
        "prompts": {"source": "none"},
        "interval": {"level": 0.9},
        "seed": 3,
    },
    "probe",
)


@pytest.fixture(scope="module")
def prompts():
    rng = np.random.default_rng(0)
    design = population(np.random.default_rng(1))
    drawn = choose(design, rng.integers(0, design.prompts, 40)).sample(rng, 16, None)
    return [(one,) for one in drawn]


@pytest.fixture(scope="module")
def run(prompts):
    return as_run("few", PROBE, prompts, "budget", 0.1, held=True, warnings=["Look."])


def test_a_run_is_of_the_probe_and_the_question(run):
    asked = (run.level, run.tolerance, run.seed, run.stopped, run.held)
    assert asked == (0.9, 0.1, 3, "budget", True)


def test_json_has_what_programs_ask_for(run, prompts, tmp_path):
    decision = decide(prompts, Question(tolerance=0.1, level=0.9))
    text = write_sampled_advice(run, decision, [], tmp_path, as_json=True)
    found = json.loads(text)
    assert (found["completions"], found["differentiated"]) == (640, 640)
    assert found["stopped"] == "budget"
    assert found["c1"]["value"] > 0
    assert found["warnings"] == ["Look."]
    assert found["headline"].startswith("Cannot tell whether num_generations = 8")
    assert (found["verdict"], found["set_to"], found["saves"]) == ("cannot tell", 8, None)
    assert found["setting"]["trainer"] == "trl"
    assert found["setting"]["group_size"] == 8
    assert found["setting"]["estimator"].startswith("grpo-std")
    assert [one.name for one in tmp_path.iterdir()] == ["advice.json"]


def test_the_screen_says_what_is_written(run, prompts, tmp_path):
    decision = decide(prompts, Question(tolerance=0.1, level=0.9))
    text = write_sampled_advice(run, decision, [12], tmp_path, as_json=False)
    *_, where, files = text.splitlines()
    assert where == f"Written to {tmp_path}:"
    assert {one.name for one in tmp_path.iterdir()} == {*files.strip().split(", ")}
    assert "the same loss, G = 12" in text


def test_nothing_is_drawn_where_a_check_failed(run, prompts, tmp_path):
    text = write_sampled_advice(
        replace(run, held=False), decide(prompts), [], tmp_path, as_json=False
    )
    assert text.startswith("No advice: a built-in check of this run FAILED")
    assert not (tmp_path / "advice.csv").exists()


def test_where_rewards_are_all_equal_there_is_no_advice(prompts):
    """With counts."""
    equal = [
        (replace(one, rewards_N=np.ones(16) * (index > 9)),)
        for index, (one,) in enumerate(prompts)
    ]
    run = as_run("few", PROBE, equal, "budget", 0.1, held=True)
    words = (
        r"few: rewards differ within 0 of 40 prompts, in 640 completions of mean reward "
    )
    with pytest.raises(InputError, match=rf"{words}0\.75: nothing to advise on; check"):
        advise_sampled_run(run, None)
