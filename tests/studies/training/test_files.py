"""A study's files: a run is kept once, whole; what has other settings is refused."""

import json
import math

import pytest

from mse_lab.errors import InputError
from mse_lab.studies.training.files import Constants, Evaluated, StudyFiles
from mse_lab.studies.training.predicted_group_size import Predicted
from mse_lab.studies.training.settings import PILOT, Arm, Study, arms_of, runs_of

STUDY = Study(probe="x", seeds=2, group_sizes=[2, 4])
[MAIN] = arms_of(STUDY)
FIRST, *OTHERS = runs_of([MAIN])


@pytest.fixture
def files(tmp_path):
    found = StudyFiles(tmp_path)
    found.add(
        FIRST, [Evaluated(50, 0.5, math.nan), Evaluated(100, 0.75, 0.25)], seconds=1.5
    )
    return found


def test_a_run_is_read_back(files):
    assert files.missing([FIRST, *OTHERS]) == OTHERS
    table = files.read([FIRST, *OTHERS])
    assert table["value"].tolist() == [0.5, 0.75]
    assert table["held_out"].isna().tolist() == [True, False]
    assert set(table["group_size"]) == {2}
    assert files.read(OTHERS).empty


def test_runs_lie_in_order_whenever_they_ended(files):
    """And what is kept of one changes nothing of another."""
    for run in reversed(OTHERS):
        files.add(run, [Evaluated(100, 1 / 3, math.nan)], seconds=1)
    table = files.read([FIRST, *OTHERS])
    assert list(zip(table["group_size"], table["seed"], table["step"], strict=True)) == [
        (2, 0, 50), (2, 0, 100), (2, 1, 100), (4, 0, 100), (4, 1, 100)
    ]  # fmt: skip
    assert table["value"].tolist() == [0.5, 0.75, *[0.3333333333] * 3]
    assert not files.missing([FIRST, *OTHERS])


@pytest.mark.parametrize("name", ["64", "NA", "1e3"])
def test_an_arm_keeps_its_name(files, name):
    arms = arms_of(STUDY.model_copy(update={"arms": {name: {"eta": 1.0}}}))
    runs = list(runs_of(arms[1:]))
    files.add(runs[0], [Evaluated(100, 0.5, math.nan)], seconds=1)
    assert files.missing(runs) == runs[1:]
    assert files.read(runs)["arm"].tolist() == [name]


@pytest.mark.parametrize("digest", ["012345678901", "1234567890e1"])
def test_a_digest_may_look_like_a_number(files, monkeypatch, digest):
    monkeypatch.setattr(Arm, "digest", digest)
    files.add(OTHERS[0], [Evaluated(100, 0.5, math.nan)], seconds=1)
    assert not files.missing(OTHERS[:1])


def test_pilots_are_kept_apart(files):
    before = (files.folder / "runs.csv").read_bytes()
    pilots = list(runs_of([Arm(PILOT, MAIN.training, MAIN.evaluation, STUDY.prediction)]))
    files.add(pilots[0], [Constants(0, 1.0, 2.0, 3.0)], seconds=1)
    assert files.missing(pilots) == pilots[1:]
    assert files.read(pilots)["c3"].tolist() == [3.0]
    assert (files.folder / "runs.csv").read_bytes() == before


def test_a_run_of_other_settings_is_refused(files):
    [other] = arms_of(STUDY.model_copy(update={"eta": 1.0}))
    with pytest.raises(InputError, match="has other settings; start over with --fresh"):
        files.missing(list(runs_of([other])))


def test_the_columns_of_an_earlier_version_are_read(files):
    pilots = list(runs_of([Arm(PILOT, MAIN.training, MAIN.evaluation, STUDY.prediction)]))
    files.add(pilots[0], [Constants(0, 1.0, 2.0, 3.0)], seconds=1)
    path = files.folder / "pilots.csv"
    now, table = path.read_text(), files.read(pilots)
    path.write_text(now.replace("c1,c2,c3", "between,oracle,pairs"))
    assert files.read(pilots).equals(table)
    path.write_text(now.replace("c2,c3", "c2,c4"))
    with pytest.raises(InputError, match="no column c3"):
        files.read(pilots)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("0.75", "", "column value has gaps"),
        ("0.75", "much", "could not convert string to float: 'much'"),
        (",100,", ",50,", "a run's step stands twice"),
        ("group_size", "size", "no column group_size"),
    ],
)
def test_a_damaged_table_is_named(files, old, new, said):
    path = files.folder / "runs.csv"
    for content in (path.read_text().replace(old, new), "", "arm,seed\n"):
        path.write_text(content)
        with pytest.raises(InputError, match=r"runs.csv: damaged .*; restore") as caught:
            files.read([FIRST])
        assert said in str(caught.value) or old not in content


STEP = {"log_ratio": 1.0, "error": 0.1, "degrees": 7, "constants": (1.0, 2.0, 3.0)}
FOUND = [Predicted(step=step, **STEP) for step in MAIN.evaluation.steps]


@pytest.mark.parametrize(
    "change",
    [
        *[{key: "1"} for key in STEP],
        *[{key: None} for key in STEP],
        *({"constants": [1.0]}, {"log_ratio": 1e300}, {"degrees": 0}, {"error": -1.0}),
    ],
    ids=str,
)
def test_a_damaged_prediction_is_named(files, change):
    files.write_prediction(MAIN, FOUND, {})
    path = files.folder / "prediction.json"
    written = json.loads(path.read_text())
    assert files.read_prediction(MAIN).predicted == FOUND
    written["predicted"][0] |= change
    path.write_text(json.dumps(written))
    with pytest.raises(InputError, match=r"prediction.json: damaged .*; restore"):
        files.read_prediction(MAIN)
    for content in ("{}", "[]", "", "{", '{"digest": 1, "predicted": []}'):
        (files.folder / "prediction.json").write_text(content)
        with pytest.raises(InputError, match=r"prediction.json: damaged .*; restore"):
            files.read_prediction(MAIN)


@pytest.mark.parametrize("content", ["[]", '{"tiny/base": 1}', "\0"])
def test_damaged_origins_are_named(files, content):
    (files.folder / "probes.json").write_text(content)
    with pytest.raises(InputError, match=r"probes.json: damaged .*; restore"):
        files.claim({"tiny/base": {"seed": 1}})


def test_a_prediction_is_of_its_settings(files):
    with pytest.raises(InputError, match="made before anything is trained"):
        files.read_prediction(MAIN)
    files.write_prediction(MAIN, [], {})
    with pytest.raises(InputError, match=r"prediction.json: lacks step 15; restore"):
        files.read_prediction(MAIN)
    files.write_prediction(MAIN, FOUND, {"training": 0.5})
    prediction = files.read_prediction(MAIN)
    assert (prediction.predicted, prediction.start) == (FOUND, {"training": 0.5})
    [other] = arms_of(STUDY.model_copy(update={"eta": 1.0}))
    with pytest.raises(InputError, match="has other settings"):
        files.read_prediction(other)


def test_fresh_leaves_nothing(files):
    files.write_prediction(MAIN, [], {})
    files.clear()
    assert not [path for path in files.folder.rglob("*") if path.is_file()]
