"""A study's files: a run is kept once, whole; what is of other settings is refused."""

import math

import pandas as pd
import pytest

from mse_lab.errors import InputError
from mse_lab.probe.study import Study, arms_of, runs_of
from mse_lab.results.study_files import Seen, StudyFiles

STUDY = Study(probe="x", seeds=2, group_sizes=[2, 4])
[MAIN] = arms_of(STUDY)
FIRST, *OTHERS = runs_of([MAIN])


@pytest.fixture
def files(tmp_path):
    found = StudyFiles(tmp_path)
    found.keep(FIRST, [Seen(50, 0.5, math.nan), Seen(100, 0.75, 0.25)], seconds=1.5)
    return found


def test_a_run_is_read_back(files):
    assert files.is_done(FIRST)
    assert not any(files.is_done(run) for run in OTHERS)
    table = files.merge([FIRST, *OTHERS])
    assert table["value"].tolist() == [0.5, 0.75]
    assert table["held_out"].isna().tolist() == [True, False]
    assert set(table["group_size"]) == {2}
    pd.testing.assert_frame_equal(files.read_table(), table)


def test_a_run_of_other_settings_is_refused(files):
    [other] = arms_of(STUDY.model_copy(update={"eta": 1.0}))
    with pytest.raises(InputError, match="is of other settings; start over with --fresh"):
        files.is_done(next(runs_of([other])))


def test_a_damaged_run_is_named(files):
    path = files.folder / "runs/main-G2-seed0.csv"
    path.write_bytes(b"")
    with pytest.raises(
        InputError, match=r"main-G2-seed0.csv: cannot be read .*; remove it"
    ):
        files.read([FIRST])


def test_a_prediction_is_of_its_settings(files):
    with pytest.raises(InputError, match="made before anything is trained"):
        files.read_prediction(MAIN)
    files.write_prediction(MAIN, {"predicted": []})
    assert files.read_prediction(MAIN)["predicted"] == []
    [other] = arms_of(STUDY.model_copy(update={"eta": 1.0}))
    with pytest.raises(InputError, match="is of other settings"):
        files.read_prediction(other)


def test_fresh_leaves_nothing(files):
    files.write_prediction(MAIN, {})
    files.merge([FIRST])
    files.clear()
    assert not [path for path in files.folder.rglob("*") if path.is_file()]
