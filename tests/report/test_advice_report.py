"""The advice as written: its words, its table, the files of a run."""

import math
from dataclasses import replace

import numpy as np
import pytest
import yaml

from mse_lab.answers.advice import BUDGET, SIZES
from mse_lab.errors import InputError
from mse_lab.mse.intervals import Estimate
from mse_lab.probe.probe_files import parse_probe
from mse_lab.report.advice_report import advice_table, advice_text, advise_run
from mse_lab.results.checks import Check
from mse_lab.results.records import Record
from populations import advise_on, known_run, population, sample
from simulated import make_design, write_tables

PROBE = {
    "model": {"path": "none"},
    "prompts": {"source": "none"},
    "interval": {"resamples": 100},
}


@pytest.fixture(scope="module")
def known():
    return known_run()


def test_sizes_above_the_pools_have_no_share_of_equal_rewards():
    rng = np.random.default_rng(0)
    short = sample(population(rng), rng, reference=64, blocks=2, largest=16)
    assert "pools too small" in advice_text(advise_on(short))


def test_a_bounded_best_size(known):
    found = known[2]
    text = advice_text(found)
    assert "no upper bound" not in text
    assert f"sqrt(c3/c1) = {found.best_group_size:.3g} (" in text


def test_no_upper_bound(known):
    best = Estimate(math.inf, 20.0, math.inf)
    text = " ".join(advice_text(replace(known[2], best=best)).split())
    assert "no upper bound on this evidence" in text
    assert "at least 20.0. More than these 60 prompts" in text
    assert "sqrt(c3/c1) =" not in text
    assert "inf" not in text
    assert f"num_generations={known[2].recommended}" in text


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((5, 4, 9), "beats vanilla (no baseline) from G = 5 on (4 to 9)."),
        ((5, 4, math.inf), "beats vanilla (no baseline) from G = 5 on (4 to never)."),
        ((math.inf, 4, math.inf), "at no G; the interval is from 4 on, to never."),
        ((math.inf,) * 3, "never beats vanilla (no baseline) here"),
    ],
)
def test_where_grpo_beats_vanilla(known, sizes, words):
    text = advice_text(replace(known[2], beats_vanilla_from=Estimate(*sizes)))
    assert words in text
    assert "inf" not in text


def test_an_unmeasurable_gradient_has_bounds_only(known):
    unknown = Estimate(math.inf, 40.0, math.inf)
    assert "covers zero" not in advice_text(known[2])
    text = advice_text(replace(known[2], noise_scale=unknown, relative_error=unknown))
    assert "covers zero" in text
    assert text.count("at least 40") == 2
    assert "inf" not in text


def test_words(known):
    found = known[2]
    lines = advice_text(found).splitlines()
    size = found.recommended
    assert lines[-3] == f"TRL: GRPOConfig(num_generations={size})"
    assert lines[-2] == f"verl: actor_rollout_ref.rollout.n={size}"
    assert lines[-1].startswith(f"OpenRLHF: --rollout.n_samples_per_prompt {size} ")
    assert f"--n_samples_per_prompt {size})" in lines[-1]
    assert len(lines) <= 37
    assert max(map(len, lines)) <= 92


def write_run(folder, pools, ok=True):
    record = Record(folder)
    record.write_pools(pools)
    values = parse_probe(PROBE, "test").model_dump(mode="json")
    sizes = (pools.reference_rewards_PN.shape[1], pools.rewards_PN.shape[1])
    values["pool"] = dict(zip(("reference", "replicate"), sizes, strict=True))
    values["group_sizes"] = [pools.largest_group]
    record.path("config.yaml").write_text(yaml.safe_dump(values))
    record.write_checks([Check("one", 1.0, 1.0, ok, "a number")], [])
    write_tables(record, "test", pools.prompts)
    return record


@pytest.mark.parametrize("ok", [True, False], ids=["checks hold", "a check failed"])
def test_files(tmp_path, known, ok):
    record = write_run(tmp_path / "run", known[1], ok)
    text = advise_run(record.folder)
    page = record.path("advice.md").read_text(encoding="utf-8")
    assert page == f"```text\n{text}```\n"
    assert ("FAILED" in text) == (not ok)
    rows = record.path("advice.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + len(SIZES)
    assert rows[0].startswith("group_size,budget,mse,mse_low,mse_high,more_samples_percent")
    assert record.path("advice.png").stat().st_size > 5000
    assert record.path("advice.pdf").stat().st_size > 5000
    assert advise_run(record.folder) == text


def test_table_agrees_with_the_curves(known):
    found = known[2]
    table = advice_table(found)
    ratio = table["mse"] * BUDGET
    at_best = ratio / (1 + table["more_samples_percent"] / 100)
    assert np.allclose(at_best, at_best[0], rtol=1e-9)
    assert (table["best_constant_mse"] < table["oracle_mse"]).all()
    assert (table["oracle_mse"] < table["mse"]).all()


def test_a_folder_with_tables_only(tmp_path, known):
    record = write_run(tmp_path, known[1])
    record.path("pools.npz").unlink()
    with pytest.raises(InputError) as caught:
        advise_run(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: tables only; measure it again with python run_mse.py run test"
    )


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(InputError, match="no finished run"):
        advise_run(tmp_path / "none")


def test_one_prompt(tmp_path):
    rng = np.random.default_rng(8)
    pools = make_design(rng, prompts=1).draw(rng, 32, 2, 4)
    record = write_run(tmp_path / "one", pools)
    with pytest.raises(InputError, match=r"one: 1 prompts: advice needs three or more"):
        advise_run(record.folder)
