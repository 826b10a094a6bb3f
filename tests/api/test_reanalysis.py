"""Pools analysed again: a run's own bytes, and what can be set."""

import numpy as np
import pandas as pd
import pytest

import run_mse


def test_a_run_analysed_again_is_the_run(project, tmp_path):
    """The same bytes, whatever stands in the run's folder beside its pools."""
    out, run = tmp_path / "again", project / "results/small"
    assert run_mse.main(["analyse", str(run), "--out", str(out)]) == 0
    for name in ("mse.csv", "laws.csv", "prompts.csv", "by_prompt.csv"):
        assert (out / name).read_bytes() == (run / name).read_bytes(), name


def test_pools_of_anybody(pools_file, capsys):
    words = [
        "--set",
        "interval.level=0.5",
        "--set",
        "estimators=[grpo, {name: pass-at-k, k: 2}]",
    ]
    assert run_mse.main(["analyse", str(pools_file), *words]) == 0
    table = pd.read_csv(pools_file.with_suffix("") / "mse.csv")
    assert list(table["estimator"].unique()) == ["grpo", "pass-at-k(k=2)"]
    assert list(table["group_size"].unique()) == [4, 8, 16]
    assert "mse.csv" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "pool.replicate=3"], "--set pool.replicate: is not of the analysis"),
        (["--set", "interval.levl=0.9"], "interval.levl"),
        (["--set", "group_sizes=[5]"], "5 does not divide"),
    ],
)
def test_settings_that_cannot_be_used(pools_file, words, said, capsys):
    assert run_mse.main(["analyse", str(pools_file), *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.parametrize("kind", ["text", "pickled"])
def test_what_is_no_file_of_arrays_is_refused_without_advice_to_unpickle_it(
    kind, tmp_path, capsys
):
    path = tmp_path / "mine.npz"
    path.write_text("a: b\n")
    if kind == "pickled":
        np.savez(path, rewards_PN=np.array([{}], dtype=object))
    assert run_mse.main(["analyse", str(path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "name a file like pools.npz" in line
    assert "trust" not in line
