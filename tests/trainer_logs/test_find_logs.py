"""The files of a log: found, recognised, passed over, or refused by name."""

import pytest

from log_makers import groups_of, summarise, write_lines
from mse_lab.errors import InputError
from mse_lab.trainer_logs.column_names import parse_columns
from mse_lab.trainer_logs.forms import FORMS, recognise
from mse_lab.trainer_logs.groups import make_groups
from mse_lab.trainer_logs.read_logs import read_log
from mse_lab.trainer_logs.summary import Summary

VERL = {"input": "a", "output": "b", "score": 1, "step": 1}


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
    with pytest.raises(InputError, match=r"has no \.jsonl, .*\.parquet.* file; name the"):
        read_log([tmp_path])


def test_every_form_recognises_its_own_keys():
    for form in FORMS[:-2]:
        assert recognise([*form.needs, "more"]).name == form.name
    assert recognise(["prompt", "reward"]).name == "JSONL"
    assert recognise(["problem", "answer"]) is None


def test_own_columns_of_a_folder(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"q": "a", "r": 1}])
    write_lines(tmp_path / "sub/b.jsonl", [{"q": "a", "r": 0}])
    write_lines(tmp_path / "other.jsonl", [{"loss": 3}])
    log = read_log([tmp_path], parse_columns("prompt=q,reward=r"))
    assert log.columns.rewards["reward"].tolist() == [1, 0]


def test_what_was_left_out_is_said(tmp_path):
    (tmp_path / "other.jsonl").write_text('{"loss": 1}\n')
    write_lines(tmp_path / "log.jsonl", groups_of([0, 1]))
    log = read_log([tmp_path])
    assert [path.name for path in log.source.unknown] == ["other.jsonl"]
    few = summarise(tmp_path / "more", groups_of([0, 1])).notes
    assert few == ["Few prompts (1): intervals say how little is known of others."]


def test_an_unknown_form_is_described(tmp_path):
    write_lines(tmp_path / "log.jsonl", [{"question": "a", "score": 1}])
    with pytest.raises(InputError, match=r"log.jsonl \(the first has question, score\)"):
        read_log([tmp_path])
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(InputError, match=r"no record in the first"):
        read_log([tmp_path])


def test_a_file_that_cannot_be_read_is_passed_over(tmp_path):
    write_lines(tmp_path / "1.jsonl", groups_of([0, 1]))
    (tmp_path / "2.parquet").write_bytes(b"PAR1 torn")
    (tmp_path / "config.jsonl").write_text('{\n"a": 1,\n"b": 2\n}\n')
    notes = summarise_folder(tmp_path).notes
    assert any("file(s) cannot be read: left out" in note for note in notes)
    (tmp_path / "1.jsonl").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        read_log([tmp_path / "2.parquet"])


def summarise_folder(folder):
    log = read_log([folder])
    return Summary(log, make_groups(log))
