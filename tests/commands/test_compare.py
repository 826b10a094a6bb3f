"""Estimators priced on finished runs: against the run's own tables, and against laws."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mse_lab.mse.loss import find_aims, progress
from mse_lab.results.finished_run import read_run
from simulated import norms_only
from written_runs import simulate, write_run

OWN = """
import numpy as np

def loo(groups):
    size, rewards = groups.rewards_PRG.shape[-1], groups.rewards_PRG
    return (rewards - rewards.mean(-1, keepdims=True)) * size / (size - 1)

def halved(groups):
    return loo(groups) / 2

def by_norm(groups):
    return groups.rewards_PRG * groups.norms2_PRG

def summed(groups):
    return groups.rewards_PRG.sum(-1)
"""
CONSTANT = "{name: constant, alpha: 0.3}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A run of 12 simulated prompts, 512 completions each in blocks of 8."""
    (tmp_path / "own_compared.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    pools = simulate(prompts=12, reference=1024, sizes=[256])
    shape = (12, 64, 8)
    gram = np.einsum("pkagah->pkagh", pools.gram_PKGG.reshape(12, 2, 32, 8, 32, 8))
    pools = replace(pools, gram_PKGG=gram.reshape(*shape, 8))
    return write_run(tmp_path / "run", pools, sizes=[2, 4, 8])


@pytest.fixture
def compared(folder, carry_out):
    """Carry the command out; rows by estimator and size."""

    def carry(*words):
        found = json.loads(carry_out("compare", str(folder), *words, "--json"))
        return {(row["estimator"], row["group_size"]): row for row in found}

    return carry


def test_numbers_are_those_of_the_runs_own_table(folder, compared):
    table = pd.read_csv(folder / "mse.csv").set_index(["estimator", "group_size"])
    rows = compared("--estimators", "grpo", "vanilla", "oracle")
    assert {*rows} == {*table.index}
    for key, row in rows.items():
        assert row["mse"] == pytest.approx(table.loc[key].mse, rel=1e-4)
        assert row["law"] == pytest.approx(table.loc[key].law, rel=1e-4)
        ends = [table.loc[key][f"ratio{end}"] for end in ("", "_low", "_high")]
        assert [*row["over_oracle"].values()] == pytest.approx(ends, rel=1e-4)
        base = rows["grpo", key[1]]["mse"]
        assert row["over_grpo"]["value"] == pytest.approx(row["mse"] / base, rel=2e-4)
        assert row["agrees"]


def test_what_the_run_never_named(compared):
    """Also at G = 1, where GRPO-type is none; a law of its own where it has one."""
    names = (CONSTANT, "{name: norm-weighted, weight: length, over: batch}", "opo-loo")
    rows = compared("--estimators", *names[:2], "--G", "1", "4")
    alone, whole = rows["constant(alpha=0.3)", 1], rows["constant(alpha=0.3)", 4]
    assert alone["over_grpo"] is None
    assert alone["law"] == pytest.approx(4 * whole["law"], rel=1e-3)
    assert alone["agrees"]
    other = rows["norm-weighted(weight=length, over=batch)", 4]
    assert (other["law"], other["agrees"]) == (None, None)
    assert other["over_oracle"]["low"] < other["over_oracle"]["value"]
    lone = compared("--estimators", names[2], "--G", "4")
    assert lone["opo-loo", 4]["over_grpo"]["value"] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("entry", [CONSTANT, "grpo", "grpo-std", "own_compared:loo"])
def test_progress_is_that_of_the_aim(folder, compared, entry):
    """What has no law has it by its own errors: the same within its interval."""
    rows = compared("--estimators", entry, "--G", "4", "--completions-per-step", "64")
    [row] = rows.values()
    known = {"own_compared:loo": "grpo", CONSTANT: {"name": "constant", "alpha": 0.3}}
    table = read_run(folder).table
    [aim] = find_aims(table, known.get(entry, entry), [4]).values()
    truth = progress(table, aim, 64, 0.95)
    if ":" in entry:
        assert row["progress"]["low"] < truth.value < row["progress"]["high"]
    else:
        assert [*row["progress"].values()] == pytest.approx(truth, rel=1e-3)


def test_a_step_of_no_whole_groups_has_no_progress(compared):
    rows = compared("--estimators", "grpo", "--G", "4", "4", "--completions-per-step", "66")
    assert [row["progress"] for row in rows.values()] == [None]


def test_a_function_of_ones_own_is_priced_where_its_mean_is_the_gradient(compared):
    """GRPO-type's own formula costs what GRPO-type does; half of it is said to be half."""
    rows = compared("--estimators", "own_compared:loo", "own_compared:halved", "opo")
    for size in (2, 4, 8):
        assert rows["own_compared:loo", size]["over_grpo"]["value"] == pytest.approx(1)
        half = rows["own_compared:halved", size]
        assert (half["mse"], half["over_grpo"]) == (None, None)
        low, high = re.search(r"mean is \S+ \((\S+) to (\S+)\) times", half["why"]).groups()
        assert 0.4 < float(low) < 0.5 < float(high) < 0.6
        assert rows["opo", size]["why"].startswith("biased, and where")
    declared = "{name: 'own_compared:halved', unbiased: true}"
    [row] = compared("--estimators", declared, "--G", "4").values()
    assert row["over_grpo"]["value"] < 0.5


def test_an_error_that_counts_the_scale_of_weights_is_no_verdict(folder, carry_out):
    """Division by std points alike and is some times as large: its progress is RLOO's."""
    words = ("compare", str(folder), "--estimators", "grpo", "grpo-std", "own_compared:loo")
    said = carry_out(*words)
    assert re.findall(
        r"(\S+) at G = 2, 4, 8: its error counts its weights' scale", said
    ) == ["grpo-std"]


def test_a_wrong_declaration_is_said(folder, carry_out):
    declared = "{name: 'own_compared:by_norm', reward_only: true, group_local: true}"
    said = carry_out("compare", str(folder), "--estimators", declared)
    assert "own_compared:by_norm at G = 8: is it declared as it is?" in said


def test_the_screen(folder, carry_out):
    said = carry_out("compare", str(folder), "--estimators", "grpo", CONSTANT, "opo")
    assert "Replicates and law agree in 6 of 6." in said
    assert "opo at G = 2, 4, 8: biased" in said
    assert "progress" not in said
    assert " 4  constant(alpha=0.3)" in said
    assert max(map(len, said.splitlines())) <= 80


WRONG = {
    "no number": ("{name: affine, alpha: a, lambda: 0}", "affine: alpha = 'a': "),
    "no list": ("[1]", "--estimators: '[1]' is no entry"),
    "a group": ("{name: affine, alpha: 0, lambda: 1} --G 1", "needs groups of 2 or more"),
    "no shape": ("own_compared:summed", "gave weights of shape (12, 256)"),
    "no part": ("grpo --G 3", "--G 3: no part of probe's groups of 8"),
    "unknown": ("grop", "estimators: unknown grop; did you mean grpo?"),
}


@pytest.mark.parametrize(("words", "says"), WRONG.values(), ids=WRONG)
def test_wrong_words_are_refused(folder, refused, words, says):
    entry, *more = words.partition(" --G ")
    sizes = ["--G", more[1]] if more[1] else []
    assert says in refused("compare", str(folder), "--estimators", entry, *sizes)


def test_pools_that_lack_something_are_refused(tmp_path, refused):
    """Norms of logits that no run recorded, products, and all of them."""
    pools, entry = simulate(sizes=[4]), "{name: norm-weighted, weight: logits}"
    bare = replace(pools, logit_norms2_PN=pools.rewards_PN + np.nan)
    for lacking, says in (
        (bare, "were not recorded; measure again with "),
        (norms_only(pools), "probe: its pools lack products of completions"),
    ):
        folder = write_run(tmp_path / "run", lacking, sizes=[2, 4])
        assert says in refused("compare", folder, "--estimators", entry)
    (folder / "pools.npz").unlink()
    assert "tables only; " in refused("compare", folder, "--estimators", entry)
