"""The advice in a run's folder: files, numbers for programs, what is told without pools."""

import json

import numpy as np
import pytest
import yaml

from mse_lab.answers.advice import CURVE_SIZES
from mse_lab.errors import InputError
from mse_lab.mse.regret import SIZES
from mse_lab.probe.probe_files import parse_probe
from mse_lab.report.advice_files import advice_table, advise_run, answer_lines
from mse_lab.results.checks import Check
from mse_lab.results.folder import ResultsFolder
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
