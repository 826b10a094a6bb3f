"""Figures of odd numbers: intervals that miss their points, runs whose errors are zero."""

import numpy as np
import pandas as pd
import pytest

import run_mse
from mse_lab.results.files import write_table
from mse_lab.results.records import Record

SIZES = [2, 4, 8]
ESTIMATORS = ["vanilla", "grpo", "oracle", "centred"]


@pytest.fixture
def draw(tmp_path, capsys):
    """Return a function that draws runs of given points, and gives the pictures."""

    def drawn(*points):
        folders = [tmp_path / f"run{index}" for index, _ in enumerate(points)]
        for folder, point in zip(folders, points, strict=True):
            record, rows = Record(folder), len(SIZES) * len(ESTIMATORS)
            columns = {
                "probe": ["some"] * rows,
                "estimator": np.repeat(ESTIMATORS, len(SIZES)),
                "group_size": SIZES * len(ESTIMATORS),
                "replicates": 8,
            }
            for name in ("mse", "law", "scale_free_mse"):
                ends = (name, f"{name}_low", f"{name}_high")
                columns |= dict(zip(ends, point, strict=True))
            prompts = {"prompt": ["a"], "category": "", "value": 0.5}
            write_table(record.path("mse.csv"), pd.DataFrame(columns))
            write_table(record.path("prompts.csv"), pd.DataFrame(prompts))
        output = tmp_path / "f.svg"
        assert run_mse.main(["figure", *map(str, folders), "--out", str(output)]) == 0
        assert capsys.readouterr().err == ""
        return output.read_text(), (tmp_path / "f-scale-free.svg").read_text()

    return drawn


@pytest.mark.parametrize("point", [(1, 2, 3), (3, 1, 2)])
def test_odd_intervals_are_drawn(draw, point):
    for picture in draw(point):
        assert "above zero" not in picture


@pytest.mark.parametrize("point", [(0, 0, 0), (-1, -2, 0)])
def test_a_run_without_an_error_is_drawn_and_says_so(draw, point):
    for picture in draw(point, (1, 0.5, 2)):
        assert picture.count("<!-- no error above zero") == 1
