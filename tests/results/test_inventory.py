"""Each file of a result holds what a run writes, or is refused; names stay texts."""

import numpy as np
import pandas as pd
import pytest

import run_mse
from mse_lab.errors import InputError
from mse_lab.results.files import write_json, write_table
from mse_lab.results.intact import read
from mse_lab.results.inventory import MANIFEST

NAMES = ["NA", "nan", "001", "true", "1e5", "none", "", "NULL", "a,b", '"', "-1", " x"]


def test_names_stay_what_they_are(tmp_path):
    prompts = pd.DataFrame({"prompt": NAMES, "category": NAMES[::-1], "value": 0.5})
    write_table(tmp_path / "prompts.csv", prompts)
    found = read(tmp_path / "prompts.csv")
    assert found["prompt"].tolist() == NAMES
    assert found["category"].tolist() == NAMES[::-1]


@pytest.mark.parametrize("name", NAMES[:6])
def test_a_runs_name_stays_what_it_is(copy, name, capsys):
    copy.path(MANIFEST).unlink()
    table = copy.read("mse.csv").assign(probe=name)
    write_table(copy.path("mse.csv"), table)
    assert run_mse.main(["claims", str(copy.folder)]) == 0
    assert f"| statement | kind | {name} |" in capsys.readouterr().out
    assert copy.read("mse.csv")["probe"].unique().tolist() == [name]


def cell(column, value):
    """Put a value at the top of a column of `mse.csv`."""

    def change(table):
        return table.assign(**{column: [value, *table[column][1:]]})

    return change


TABLES = {
    "no column law_low": lambda table: table.drop(columns="law_low"),
    "no rows": lambda table: table[:0],
    "column mse holds what is no such number": cell("mse", "many"),
    "column group_size holds what is no such number": cell("group_size", 2.5),
    "column replicates holds what is no such number": cell("replicates", -1),
    "column law holds inf": cell("law", np.inf),
    "column mse_low holds 1e\\+300": cell("mse_low", 1e300),
}


@pytest.mark.parametrize("says", TABLES)
def test_tables_that_no_run_writes_are_refused(copy, says):
    path = copy.path("mse.csv")
    write_table(path, TABLES[says](copy.read("mse.csv")))
    copy.path(MANIFEST).unlink()
    with pytest.raises(InputError, match=rf"mse\.csv: damaged \({says}\)"):
        read(path)


def test_tables_of_earlier_versions_lack_columns(copy):
    copy.path(MANIFEST).unlink()
    table = copy.read("mse.csv")
    write_table(copy.path("mse.csv"), table.drop(columns="scale_free_mse"))
    assert copy.read("mse.csv")["scale_free_mse"].isna().all()


JSON = {
    "checks.json": [[], {"ok": True}, {"ok": True, "checks": [{"name": 1}]}],
    "diagnostics.json": [1, "text"],
    "environment.json": [[], {"seconds": "many"}, {"seconds": 10**400}, {"seconds": []}],
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
        read(tmp_path / name)


BOMBS = {
    "aliases": "\n".join(["a0: &a0 [x, x]", *(
        f"a{one}: &a{one} [*a{one - 1}, *a{one - 1}]" for one in range(1, 40)
    )]) + "\n",
    "depth": f"a: {'[' * 900}{']' * 900}\n",
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_configuration_that_grows_is_refused(tmp_path, bomb):
    (tmp_path / "config.yaml").write_text(BOMBS[bomb])
    with pytest.raises(InputError, match=r"config\.yaml: damaged \(.*more than"):
        read(tmp_path / "config.yaml")
