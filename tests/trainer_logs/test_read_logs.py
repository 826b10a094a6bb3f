"""Logs on the disk: found, recognised, half-written, mixed, or refused by name."""

import gzip
import json

import pandas as pd
import pytest

from log_makers import groups_of, read, write_lines
from mse_lab.errors import InputError
from mse_lab.probe.sources import ROWS
from mse_lab.trainer_logs.groups import make_groups
from mse_lab.trainer_logs.read_logs import read_log
from mse_lab.trainer_logs.summary import Summary

VERL = {"input": "a", "output": "b", "score": 1, "step": 1}


def test_a_half_written_last_line_is_counted(tmp_path):
    """The trainer is still running: JSON that does not end, without a line's end."""
    path = write_lines(tmp_path / "log.jsonl", groups_of([0, 1], [1, 1]))
    path.write_text(path.read_text() + '{"prompt_id": "p2", "rewa')
    log = read_log([tmp_path])
    assert len(log.columns.step_N) == 4
    assert [where.number for where in log.source.damaged] == [3]


def test_a_last_line_without_its_end_may_be_whole(tmp_path):
    path = write_lines(tmp_path / "log.jsonl", groups_of([0, 1]))
    path.write_text(path.read_text().rstrip())
    log = read_log([path])
    assert (len(log.columns.step_N), log.source.damaged) == (2, [])


def test_a_broken_line_within_is_counted(tmp_path):
    path = write_lines(tmp_path / "log.jsonl", groups_of([0, 1]))
    path.write_text(path.read_text() + "{nonsense\n" + path.read_text())
    log = read_log([path])
    assert len(log.columns.step_N) == 4
    note = Summary(log, make_groups(log)).notes[0]
    assert note == f"1 line(s) are no whole JSON: left out ({path}, line 2)."


def test_many_broken_lines_are_refused_by_the_first(tmp_path):
    """Two of 100 are more than a hundredth; two of 200 are not."""
    for count, refused in ((98, True), (198, False)):
        path = write_lines(tmp_path / "log.jsonl", groups_of(*[[0, 1]] * count))
        path.write_text("3\n{nonsense\n" + path.read_text())
        if not refused:
            assert len(read_log([path]).source.damaged) == 2
            continue
        with pytest.raises(InputError, match=r"line 1: not a JSON object; as 2 of 100"):
            read_log([path])


def test_compressed_lines(tmp_path):
    path = tmp_path / "log.jsonl.gz"
    text = b"".join(json.dumps(one).encode() + b"\n" for one in groups_of([0, 1]) * 999)
    path.write_bytes(gzip.compress(text, mtime=0))
    assert len(read_log([tmp_path]).columns.step_N) == 1998
    path.write_bytes(path.read_bytes()[:-20])  # It is still being written.
    assert 0 < len(read_log([path]).columns.step_N) <= 1998
    other = path.rename(tmp_path / "log.csv.gz")
    with pytest.raises(InputError, match=r"only .jsonl.gz is read as it is; unpack it"):
        read_log([other])


def test_a_form_without_completions(tmp_path):
    with pytest.raises(InputError, match="no completions"):
        read(tmp_path, [{"prompt_id": "a", "rewards": []}])


def test_data_frames(tmp_path):
    columns = read_log(pd.DataFrame([VERL, VERL | {"score": 0}])).columns
    assert columns.rewards["score"].tolist() == [1, 0]
    with pytest.raises(InputError, match="columns q: of no known form"):
        read_log(pd.DataFrame({"q": [1]}))


def test_cells_of_a_frame_are_pythons(tmp_path):
    """Lists that Parquet gives as arrays, whole numbers with gaps, missing texts."""
    frame = pd.DataFrame(
        {
            "prompt": ["a", "b"],
            "reward": pd.array([1, None], dtype="Int64"),
            "tokens": [pd.array([1, 2]).to_numpy(), None],
        }
    )
    columns = read_log(frame).columns
    assert columns.length_N.tolist() == [2, -1]


def test_more_rows_than_are_in_memory_at_once(tmp_path):
    frame = pd.DataFrame({"prompt": ["a"] * (2 * ROWS + 1), "reward": 1.0})
    frame.to_csv(tmp_path / "log.csv", index=False)
    assert len(read_log([tmp_path]).columns.step_N) == 2 * ROWS + 1
