"""The files of a log: each once, whole or said to be cut, of one folder and one form."""

import gzip
import os
import shutil

import pytest

from log_makers import (
    completions,
    counted,
    numbers_of,
    read,
    with_advantages,
    write_lines,
    write_trl,
)
from mse_lab.errors import InputError

BASE = completions(prompts=4, steps=3)
ROWS = BASE[["step", "id", "reward"]].rename(columns={"id": "prompt_id"}).to_dict("records")
BY_ID = counted(BASE, "id")
SIZE = len(ROWS)


def link(log):
    (log.parent / "b.jsonl").symlink_to(log)


def hard_link(log):
    os.link(log, log.parent / "b.jsonl")


def copy(log):
    shutil.copy(log, log.parent / "b.jsonl")


def copy_below(log):
    (log.parent / "copy").mkdir()
    shutil.copy(log, log.parent / "copy/a.jsonl")


def zipped(log):
    log.with_name("a.jsonl.gz").write_bytes(gzip.compress(log.read_bytes()))


def data_set(log):
    write_lines(log.parent / "train.jsonl", [{"question": "a", "answer": "b"}])


def broken(log):
    (log.parent / "b.parquet").write_bytes(b"PAR1 is not enough")


def packed(log):
    (log.parent / "b.csv.xz").write_bytes(b"")


def code(log):
    (log.parent / "c/d").mkdir(parents=True)
    (log.parent / "c/d/words.csv").write_text("a,b\n1,2\n")


def damaged(log):
    log.write_bytes(log.read_bytes() + b'{"step": 1, "prompt\n')


def no_object(log):
    log.write_text(f"[1]\n{log.read_text()}")


def key_twice(log):
    log.write_text(log.read_text() + '{"prompt_id": 1, "prompt_id": 2, "reward": 1}\n')


SPOILS = {
    link: "1 link(s) of another file",
    hard_link: "1 link(s) of another file",
    copy: "1 copies of another file",
    copy_below: "1 copies of another file",
    zipped: "1 copies of another file",
    data_set: "1 file(s) that are no log: left out",
    broken: "1 file(s) that are no log: left out",
    packed: "1 file(s) that are no log: left out",
    code: "1 file(s) that are no log: left out",
    damaged: f"1 line(s) that are no JSON object: left out ({{log}}, line {SIZE + 1})",
    no_object: "1 line(s) that are no JSON object: left out ({log}, line 1)",
    key_twice: "1 line(s) that are no JSON object",
}


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__)
def test_what_lies_beside_is_counted_and_left_out(tmp_path, spoil):
    log = write_lines(tmp_path / "a.jsonl", ROWS)
    spoil(log)
    found = read(tmp_path)
    numbers = numbers_of(found)
    assert {key: numbers[key] for key in BY_ID} == pytest.approx(BY_ID)
    assert [one["count"] for one in numbers["left_out"]] == [1]
    assert found.notes[0].startswith(SPOILS[spoil].format(log=log)[:90])


def test_a_link_beside_its_file_in_the_words(tmp_path):
    log = write_lines(tmp_path / "a.jsonl", ROWS)
    link(log)
    assert numbers_of(read([log, log.parent / "b.jsonl", log]))["completions"] == SIZE


def cut_line(log, path):
    path.write_bytes(log.read_bytes()[:-5])


def cut_stream(log, path):
    path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(log.read_bytes())[:-40])
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("cut", [cut_line, cut_stream], ids=["line", "stream"])
def test_a_file_that_ends_early(tmp_path, cut):
    log = write_lines(tmp_path / "whole" / "a.jsonl", ROWS)
    (tmp_path / "cut").mkdir()
    cut(log, tmp_path / "cut" / "a.jsonl")
    with pytest.raises(InputError, match=r"the file ends early; .* by --partial"):
        read(tmp_path / "cut")
    found = read(tmp_path / "cut", partial=True)
    numbers = numbers_of(found)
    kept = BASE[: numbers["completions"]]
    assert 0 < len(kept) < SIZE
    assert numbers["mean_reward"] == pytest.approx(kept["reward"].mean())
    assert numbers["left_out"][0]["what"] == "file(s) that end early, read up to there"


def test_a_file_without_a_last_line_break_is_whole(tmp_path):
    log = write_lines(tmp_path / "a.jsonl", ROWS)
    log.write_text(log.read_text().rstrip())
    assert numbers_of(read(log))["completions"] == SIZE


def plain_text(path):
    path.write_text("epoch 1\nepoch 2\n" * 50)


def one_array(path):
    path.write_text('[{"prompt_id": 1, "reward": 1}]')


def much_damaged(path):
    write_lines(path, ROWS)
    path.write_text(path.read_text() + "{\n" * 3)


REFUSED = {
    plain_text: "as 100 of 100 lines: a log has a JSON object a line",
    one_array: "as 1 of 1 lines",
    much_damaged: r"as 3 of \d+ lines: a log",
    lambda path: path.write_bytes(b""): "its columns are none",
    lambda path: path.with_suffix(".txt").write_bytes(
        b""
    ): "has no .jsonl, .jsonl.gz, .csv",
    lambda path: path.with_suffix(".parquet").write_bytes(b"PAR1"): "cannot be read",
    lambda path: path.write_bytes(b"\xff\xfe\n"): "as 1 of 1 lines",
    lambda path: write_lines(path, [{}] * 3): "its columns are none",
    lambda path: path.with_suffix(".csv").write_text("prompt,reward\n"): "it has no rows",
}


@pytest.mark.parametrize("write", REFUSED)
def test_what_is_no_log(tmp_path, write):
    write(tmp_path / "log.jsonl")
    with pytest.raises(InputError, match=REFUSED[write]):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("nothing", "no such file or folder"),
        ("a.pt", "a pickle, which runs code when it is read, is never loaded"),
        ("a.csv.gz", "only .jsonl.gz is read as it is"),
        ("train.jsonl", "its columns are question, answer; which is the reward"),
    ],
)
def test_a_file_that_is_named_and_no_log(tmp_path, name, line):
    log = write_lines(tmp_path / "a.jsonl", ROWS)
    data_set(log)
    for file in ("a.pt", "a.csv.gz"):
        (tmp_path / file).write_bytes(b"")
    with pytest.raises(InputError, match=line):
        read([log, tmp_path / name])


def test_rollouts_in_two_folders_are_not_merged(tmp_path):
    write_lines(tmp_path / "1.jsonl", ROWS)
    write_lines(tmp_path / "validation/1.jsonl", ROWS[:8])
    with pytest.raises(
        InputError, match=r"in 2 folders, .*run.* \(1\).*validation \(1\)|in 2 "
    ):
        read(tmp_path)
    assert numbers_of(read(tmp_path / "validation"))["completions"] == 8


def test_forms_are_not_mixed(tmp_path):
    write_trl(tmp_path, with_advantages(BASE, 8))
    write_lines(tmp_path / "completions/a.jsonl", ROWS)
    with pytest.raises(InputError, match=r"\(TRL\): of several forms"):
        read(tmp_path)
