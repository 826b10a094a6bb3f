"""The advice in its folder: files, numbers for programs, and what is told where none is."""

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from mse_lab.answers.advice import CURVE_SIZES
from mse_lab.errors import InputError
from mse_lab.mse.regret import SIZES
from mse_lab.mse.verdict import Question, decide
from mse_lab.probe.probe_files import parse_probe
from mse_lab.report.advice_files import (
    advice_table,
    advise_sampled_run,
    answer_lines,
    as_run,
    find_advice,
    keep_sampled_advice,
    write_advice,
)
from mse_lab.results.checks import Check
from mse_lab.results.folder import ResultsFolder
from populations import choose, population
from simulated import make_design, write_tables

PROBE = {
    "model": {"path": "none"},
    "prompts": {"source": "none"},
    "interval": {"resamples": 100},
}


def write_run(folder, pools, ok=True):
    results = ResultsFolder(folder)
    results.write("pools.npz", vars(pools))
    values = parse_probe(PROBE, "test").model_dump(mode="json")
    sizes = (pools.reference_rewards_PN.shape[1], pools.rewards_PN.shape[1])
    values["pool"] = dict(zip(("reference", "replicate"), sizes, strict=True))
    values["group_sizes"] = [pools.largest_group]
    results.file("config.yaml").write_text(yaml.safe_dump(values))
    results.write_checks([Check("one", 1.0, 1.0, ok, "a number")], [])
    write_tables(results, "test", pools.prompts)
    return results


def advise_run(folder, *asked, as_json=False):
    return write_advice(folder, find_advice(folder, *asked), as_json=as_json)


def write_sampled(folder, *sampled, as_json=False):
    advice = keep_sampled_advice(folder, *sampled)
    return write_advice(folder, advice, as_json=as_json, written=["advice.json"])


def test_files(tmp_path, known):
    results = write_run(tmp_path / "run", known[1])
    named = advise_run(results.path).partition("Written to ")[2]
    written = {path.name for path in results.path.glob("advice.*")}
    assert {name.strip(",") for name in named.split() if "advice." in name} == written
    rows = results.file("advice.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + len(SIZES)
    assert rows[0].startswith("group_size,budget,mse,mse_low,mse_high,cost,cost_low")
    assert results.file("advice.png").stat().st_size > 5000
    assert results.file("advice.pdf").stat().st_size > 5000


def test_a_run_whose_check_failed_has_no_advice(tmp_path, known):
    """Neither sizes nor settings, on the screen, in files or in a run's last lines."""
    results = write_run(tmp_path / "run", known[1], ok=False)
    text = advise_run(results.path)
    assert text == "No advice: a built-in check of this run FAILED; checks.json says which."
    assert not list(results.path.glob("advice.*"))
    assert answer_lines(results.path) == [text]
    told = json.loads(advise_run(results.path, as_json=True))
    assert (told["held"], told["headline"]) == (False, text)


def test_table_agrees_with_the_curves(known):
    found = known[2]
    table = advice_table(found)
    assert np.allclose(table["mse"] / table["cost"], found.row(found.recommended).mse.value)
    curve = dict(zip(CURVE_SIZES, found.curves["grpo"], strict=True))
    for row in table.itertuples():
        assert row.mse == pytest.approx(curve[row.group_size].value)


def test_numbers_for_programs(tmp_path, known):
    results = write_run(tmp_path / "run", known[1])
    told = json.loads(advise_run(results.path, [8], 2048, as_json=True))
    assert told["headline"].startswith("Set num_generations = ")
    assert told["best"]["low"] < told["best"]["value"] < told["best"]["high"]
    assert (told["budget"], told["rows"][-1]["group_size"]) == (2048, 8)
    assert not list(results.path.glob("advice.*"))


def test_kept_by_a_run_and_told_without_pools(tmp_path, known):
    """The last lines of a run keep it; then it can be told from what is committed."""
    results = write_run(tmp_path / "run", known[1])
    lines = answer_lines(results.path)
    assert lines[0].startswith("Set num_generations = ")
    assert "advice.json" in results.read("manifest.json")
    text = advise_run(results.path)
    results.file("pools.npz").unlink()
    assert answer_lines(results.path) == lines
    for name in ("advice.png", "advice.pdf"):
        results.file(name).unlink()
    again = advise_run(results.path)
    assert again.partition("Written")[0] == text.partition("Written")[0]
    assert "advice.png" not in again
    assert advise_run(results.path, [8, 32]).count("GRPO-type (RLOO), G = ") <= 2
    for sizes, budget in (([12], 1024), ([], 2048)):
        with pytest.raises(
            InputError, match=r"has no pools.npz, only the answers for --at"
        ):
            advise_run(results.path, sizes, budget)
    results.file("advice.json").write_text("{}")
    with pytest.raises(InputError, match=r"advice.json: damaged \(its checksum"):
        advise_run(results.path)


def test_a_folder_with_tables_only(tmp_path, known):
    write_run(tmp_path, known[1]).file("pools.npz").unlink()
    with pytest.raises(InputError) as caught:
        advise_run(tmp_path)
    assert str(caught.value) == (f"{tmp_path}: tables only; measure it: mse-lab run test")


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(InputError, match="no finished run"):
        advise_run(tmp_path / "none")


def test_one_prompt(tmp_path):
    rng = np.random.default_rng(8)
    results = write_run(tmp_path / "one", make_design(rng, prompts=1).draw(rng, 32, 2, 4))
    with pytest.raises(InputError, match=r"one: 1 prompts: advice needs three or more"):
        advise_run(results.path)
    assert answer_lines(results.path) == [
        "no advice: 1 prompts: advice needs three or more; raise prompts.limit"
    ]


ASKED = parse_probe(
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
    return as_run("few", ASKED, prompts, "budget", 0.1, held=True, told=("Look.",))


def test_a_run_is_of_the_probe_and_the_question(run):
    asked = (run.level, run.tolerance, run.seed, run.stopped, run.held)
    assert asked == (0.9, 0.1, 3, "budget", True)


def test_json_has_what_programs_ask_for(run, prompts, tmp_path):
    decision = decide(prompts, Question(tolerance=0.1, level=0.9))
    text = write_sampled(tmp_path, run, decision, as_json=True)
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
    text = write_sampled(tmp_path, run, decision, [12])
    *_, where, files = text.splitlines()
    assert where == f"Written to {tmp_path}:"
    assert {one.name for one in tmp_path.iterdir()} == {*files.strip().split(", ")}
    assert "the same loss, G = 12" in text


def test_nothing_is_drawn_where_a_check_failed(run, prompts, tmp_path):
    text = write_sampled(tmp_path, replace(run, held=False), decide(prompts))
    assert text.startswith("No advice: a built-in check of this run FAILED")
    assert not (tmp_path / "advice.csv").exists()


def test_where_rewards_are_all_equal_there_is_no_advice(prompts):
    """With counts."""
    equal = [
        (replace(one, rewards_N=np.ones(16) * (index > 9)),)
        for index, (one,) in enumerate(prompts)
    ]
    run = as_run("few", ASKED, equal, "budget", 0.1, held=True)
    words = (
        r"few: rewards differ within 0 of 40 prompts, in 640 completions of mean reward "
    )
    with pytest.raises(InputError, match=rf"{words}0\.75: nothing to advise on; check"):
        advise_sampled_run(run, None)
