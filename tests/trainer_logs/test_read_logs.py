"""Logs on the disk: found, recognised, half-written, mixed, or refused by name."""

import pandas as pd
import pytest

from log_makers import groups_of, read, summarise, write_lines
from mse_lab.errors import InputError
from mse_lab.trainer_logs.column_names import parse_columns
from mse_lab.trainer_logs.forms import FORMS, recognise
from mse_lab.trainer_logs.read_logs import read_log
from mse_lab.trainer_logs.records import ROWS

VERL = {"input": "a", "output": "b", "score": 1, "step": 1}


def test_a_half_written_last_line_is_counted(tmp_path):
    """The trainer is still running: JSON that does not end, without a line's end."""
    path = write_lines(tmp_path / "log.jsonl", groups_of([0, 1], [1, 1]))
    path.write_text(path.read_text() + '{"prompt_id": "p2", "rewa')
    log = read_log([tmp_path])
    assert len(log.columns.step_N) == 4
    assert log.source.cut_lines == 1


def test_a_last_line_without_its_end_may_be_whole(tmp_path):
    path = write_lines(tmp_path / "log.jsonl", groups_of([0, 1]))
    path.write_text(path.read_text().rstrip())
    log = read_log([path])
    assert (len(log.columns.step_N), log.source.cut_lines) == (2, 0)


def test_a_broken_line_within_is_refused_by_its_number(tmp_path):
    path = write_lines(tmp_path / "log.jsonl", groups_of([0, 1]))
    path.write_text(path.read_text() + "{nonsense\n" + path.read_text())
    with pytest.raises(InputError, match=r"log.jsonl, line 2: not valid JSON .* line out"):
        read_log([path])


def test_a_file_that_has_only_begun_is_left_out(tmp_path):
    write_lines(tmp_path / "1.jsonl", [VERL])
    (tmp_path / "2.jsonl").write_text('{"inp')
    (tmp_path / "3.jsonl").write_text("")
    log = read_log([tmp_path])
    assert [path.name for path in log.source.unknown] == ["2.jsonl", "3.jsonl"]


def test_mixed_forms_are_refused_by_name(tmp_path):
    write_lines(tmp_path / "a.jsonl", [VERL])
    write_lines(tmp_path / "b.jsonl", groups_of([0, 1]))
    with pytest.raises(InputError, match=r"a.jsonl \(verl\).*b.jsonl \(JSONL\).*of one"):
        read_log([tmp_path])
    assert len(read_log([tmp_path / "a.jsonl"]).columns.step_N) == 1


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        read_log([tmp_path / "nowhere"])
    with pytest.raises(InputError, match=r"has no \.jsonl, \.parquet.* file; name the"):
        read_log([tmp_path])


def test_a_form_without_completions(tmp_path):
    with pytest.raises(InputError, match="no completions"):
        read(tmp_path, [{"prompt_id": "a", "rewards": []}])


def test_every_form_recognises_its_own_keys():
    for form in FORMS[:-2]:
        assert recognise([*form.needs, "more"]).name == form.name
    assert recognise(["prompt", "reward"]).name == "JSONL"
    assert recognise(["problem", "answer"]) is None


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


def test_own_columns_of_a_folder(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"q": "a", "r": 1}])
    write_lines(tmp_path / "sub/b.jsonl", [{"q": "a", "r": 0}])
    log = read_log([tmp_path], parse_columns("prompt=q,reward=r"))
    assert log.columns.rewards["reward"].tolist() == [1, 0]


def test_what_was_left_out_is_said(tmp_path):
    (tmp_path / "other.jsonl").write_text('{"loss": 1}\n')
    write_lines(tmp_path / "log.jsonl", groups_of([0, 1]))
    log = read_log([tmp_path])
    assert [path.name for path in log.source.unknown] == ["other.jsonl"]
    few = summarise(tmp_path / "more", groups_of([0, 1])).notes
    assert few == ["Few prompts (1): the intervals say how little is known of others."]


def test_an_unknown_form_is_described(tmp_path):
    write_lines(tmp_path / "log.jsonl", [{"question": "a", "score": 1}])
    with pytest.raises(InputError, match=r"log.jsonl \(the first has question, score\)"):
        read_log([tmp_path])
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(InputError, match=r"no record in the first"):
        read_log([tmp_path])
