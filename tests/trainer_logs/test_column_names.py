"""Columns of any file under our names."""

import pandas as pd
import pytest

from log_makers import write_lines
from mse_lab.errors import InputError
from mse_lab.trainer_logs.column_names import check_columns, parse_columns
from mse_lab.trainer_logs.read_logs import read_log


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_columns_of_ones_own(tmp_path, suffix):
    frame = pd.DataFrame(
        {"q": ["a", "a", "b"], "exact": [1, 0, 1], "tidy": [0.5, 0.5, 0.0]}
    )
    path = tmp_path / f"log{suffix}"
    if suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    named = parse_columns("prompt=q,reward=exact,reward=tidy")
    for given in ([path], frame):
        columns = read_log(given, named).columns
        assert columns.rewards["exact"].tolist() == [1, 0, 1]
        assert columns.rewards["tidy"].tolist() == [0.5, 0.5, 0.0]
        assert columns.prompt_N.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("prompt=a", "without reward"),
        ("promt=a,reward=b", "did you mean prompt"),
        ("prompt=a,reward=b,completion=c", "'completion': did you mean text"),
        ("prompt=a,reward=", "name of one column"),
        ("prompt=a,prompt=b,reward=c", "name of one column"),
        ("", "known: |did you mean"),
    ],
)
def test_columns_that_are_refused(text, reason):
    with pytest.raises(InputError, match=reason):
        parse_columns(text)


def test_columns_in_python():
    assert check_columns({"prompt": "q", "reward": ["a", "b"]})["reward"] == ["a", "b"]


def test_a_column_that_is_not_there_is_named(tmp_path):
    path = write_lines(tmp_path / "log.jsonl", [{"q": "a", "r": 1}])
    with pytest.raises(InputError, match="score is missing; the record has q, r"):
        read_log([path], parse_columns("prompt=q,reward=score"))
