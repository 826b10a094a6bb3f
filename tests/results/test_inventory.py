"""Short texts of a result hold what a run writes, or are refused."""

import pandas as pd
import pytest

import run_mse
from mse_lab.errors import InputError
from mse_lab.results.files import write_json, write_table
from mse_lab.results.integrity import read_intact
from mse_lab.results.inventory import MANIFEST

JSON = {
    "checks.json": [[], {"ok": True}, {"ok": True, "checks": [{"name": 1}]}],
    "diagnostics.json": [1, "text"],
    "environment.json": [[], 1],
    "config.yaml": [["text"], "text"],
    "checkpoint.json": [[], {"model": 1}],
    "manifest.json": [[], {"mse.csv": None}],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in JSON.items() for value in values],
    ids=lambda value: str(value)[:40],
)
def test_values_of_another_shape_are_refused(tmp_path, name, value):
    write_json(tmp_path / name, value)
    with pytest.raises(InputError, match=rf"{name}: damaged \("):
        read_intact(tmp_path / name)


BOMBS = {"aliases": "a: &a [x, x]\nb: [*a, *a]\n", "depth": f"a: {'[' * 900}{']' * 900}\n"}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_configuration_that_grows_is_refused(tmp_path, bomb):
    (tmp_path / "config.yaml").write_text(BOMBS[bomb])
    with pytest.raises(InputError, match=r"config\.yaml: damaged \(.*(an alias|too deep)"):
        read_intact(tmp_path / "config.yaml")


NAMES = ["NA", "nan", "001", "true", "1e5", "none", "", "NULL", "a,b", '"', "-1", " x"]


def test_names_stay_what_they_are(tmp_path):
    prompts = pd.DataFrame({"prompt": NAMES, "category": NAMES[::-1], "value": 0.5})
    write_table(tmp_path / "prompts.csv", prompts)
    found = read_intact(tmp_path / "prompts.csv")
    assert found["prompt"].tolist() == NAMES
    assert found["category"].tolist() == NAMES[::-1]


@pytest.mark.parametrize("name", NAMES[:6])
def test_a_runs_name_stays_what_it_is(copy, name, capsys):
    copy.file(MANIFEST).unlink()
    write_table(copy.file("mse.csv"), copy.read("mse.csv").assign(probe=name))
    assert run_mse.main(["claims", str(copy.path)]) == 0
    assert capsys.readouterr().out.startswith(f"{name}: ")
    assert copy.read("mse.csv")["probe"].unique().tolist() == [name]


TABLES = {
    "no column law_low": lambda table: table.drop(columns="law_low"),
    "no rows": lambda table: table[:0],
    "could not convert .* 'many'.*": lambda table: table.assign(mse="many"),
}


@pytest.mark.parametrize("says", TABLES)
def test_tables_that_no_run_writes_are_refused(copy, says):
    path = copy.file("mse.csv")
    write_table(path, TABLES[says](copy.read("mse.csv")))
    copy.file(MANIFEST).unlink()
    with pytest.raises(InputError, match=rf"mse\.csv: damaged \({says}\)"):
        read_intact(path)
