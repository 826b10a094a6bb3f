"""`advise --allocate`: the screen, the files beside the run, what is refused."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import run_mse
from mse_lab.answers.allocation import allocate
from mse_lab.answers.measured_run import read_run
from mse_lab.formatting import with_interval
from mse_lab.mse.allocation import RULES
from mse_lab.report.allocation_report import (
    DISPLAY_NAMES,
    allocation_table,
    allocation_text,
)
from written_runs import simulate, write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pools = simulate(prompts=12, values=(0.1, 0.9))
    return write_run(tmp_path_factory.mktemp("allocated") / "one", pools)


@pytest.fixture(scope="module")
def found(folder):
    return allocate(read_run(folder), 96)


def test_the_command(folder, found, capsys):
    assert run_mse.main(["advise", str(folder), "--allocate", "--budget", "96"]) == 0
    screen = capsys.readouterr().out
    assert screen.startswith(allocation_text(found))
    names = {path.name for path in folder.glob("allocation.*")}
    assert names == {f"allocation.{one}" for one in ("csv",)}
    assert all(name in screen.split("Written to ")[1] for name in names)
    table = pd.read_csv(folder / "allocation.csv")
    assert [*table][:3] == ["prompt", "value", "uniform"]
    assert len(table) == 12
    assert (table.iloc[:, 2:].sum() == 96).all()
    np.testing.assert_array_equal(table["vanilla_best"], found.sizes["vanilla, best"])


def test_the_screen(found):
    lines = allocation_text(found).splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 80
    assert lines[0] == "96 completions for 12 prompts, on average 8 each"
    for name, ratio in found.ratios.items():
        [line] = [line for line in lines if line.startswith(f"  {DISPLAY_NAMES[name]} ")]
        assert line.endswith(with_interval(ratio))
    told = " ".join(lines)
    assert f"Dropping the {found.outside} prompts" in told
    assert found.sizes["best"].max() == int(told.split("largest are ")[1].split()[0])
    none = " ".join(allocation_text(replace(found, outside=0)).splitlines())
    assert "so none would be dropped" in none
    failed = allocation_text(replace(found, held=False))
    assert failed.startswith("A built-in check of this run FAILED")


def test_every_rule_has_its_words_and_its_column(found):
    assert {*DISPLAY_NAMES} == {*RULES}
    assert max(map(len, DISPLAY_NAMES.values())) <= 42
    assert len([*allocation_table(found)]) == 2 + len(RULES)


def test_numbers_for_programs(folder, capsys):
    for path in folder.glob("allocation.*"):
        path.unlink()
    words = ["advise", str(folder), "--allocate", "--budget", "96", "--json"]
    assert run_mse.main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["budget"] == sum(one["best"] for one in told["prompts"]) == 96
    assert {*told["ratios"]["best"]} == {"value", "low", "high"}
    assert not list(folder.glob("allocation.*"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--budget", "23"], "--budget 23: give from 24 to 3072 completions"),
        (["--budget", "0"], "is no number of completions"),
        (["--at", "8"], "leave it out with --allocate"),
    ],
)
def test_wrong_words_are_refused(folder, refused, words, told):
    assert told in refused("advise", folder, "--allocate", *words)


def test_a_run_of_tables_only_is_refused(folder, tmp_path, refused):
    for name in ("mse.csv", "prompts.csv", "config.yaml"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    assert "tables only; measure it again" in refused("advise", tmp_path, "--allocate")
