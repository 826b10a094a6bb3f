"""Short texts of a result hold what a run writes, or are refused."""

import pytest

from mse_lab.errors import InputError
from mse_lab.results.files import write_json
from mse_lab.results.integrity import read

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
        read(tmp_path / name)


BOMBS = {"aliases": "a: &a [x, x]\nb: [*a, *a]\n", "depth": f"a: {'[' * 900}{']' * 900}\n"}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_configuration_that_grows_is_refused(tmp_path, bomb):
    (tmp_path / "config.yaml").write_text(BOMBS[bomb])
    with pytest.raises(InputError, match=r"config\.yaml: damaged \(.*(an alias|too deep)"):
        read(tmp_path / "config.yaml")
