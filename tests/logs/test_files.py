"""The files of a log: each once, whole or said to be cut, of one folder and one form."""

import io
import os
import shutil

import pandas as pd
import pytest

from log_makers import (
    check,
    completions,
    counted,
    numbers_of,
    read,
    refuse,
    with_advantages,
    write_lines,
    write_trl,
    write_verl,
)
from mse_lab.report.rollouts_report import rollouts_text

BASE = completions(prompts=4, steps=3)
ROWS = BASE[["step", "id", "reward"]].rename(columns={"id": "prompt_id"}).to_dict("records")
BY_ID = counted(BASE, "id")
SIZE = len(ROWS)


def put(log, name, content):
    """Write a file beside a log, in a folder that may be new."""
    path = log.parent / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def add(log, text):
    log.write_text(log.read_text() + text)


AGAIN = "1 link(s) or copies of another file, counted once"
NO_LOG, NO_JSON = "1 file(s) that are no log: left out", "1 line(s) that are no JSON object"
# What happens to a log, or lies beside it, and what is said of it.
SPOILS = {
    "link": (lambda log: (log.parent / "b.jsonl").symlink_to(log), AGAIN),
    "copy below": (lambda log: put(log, "b/a.jsonl", log.read_bytes()), AGAIN),
    "data set": (lambda log: put(log, "train.jsonl", '{"question": "a"}\n'), NO_LOG),
    "table below": (lambda log: put(log, "c/d/words.csv", "a,b\n1,2\n"), NO_LOG),
    "broken": (lambda log: put(log, "b.parquet", b"PAR1 is not enough"), NO_LOG),
    "packed": (lambda log: put(log, "b.csv.xz", b""), NO_LOG),
    "damaged": (lambda log: add(log, '{"step": 1, "prompt\n'),
        f"{NO_JSON}: left out ({{log}}, line {SIZE + 1})"),
    "no object": (lambda log: log.write_text(f"[1]\n{log.read_text()}"),
        f"{NO_JSON}: left out ({{log}}, line 1)"),
    "key twice": (lambda log: add(log, '{"prompt_id": 1, "prompt_id": 2, "reward": 1}\n'),
        NO_JSON),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILS)
def test_what_lies_beside_is_counted_and_left_out(tmp_path, name):
    log = write_lines(tmp_path / "a.jsonl", ROWS)
    spoil, said = SPOILS[name]
    spoil(log)
    found = check(tmp_path, BY_ID)
    assert [one.count for one in found.groups.left_out] == [1]
    assert found.notes[0].startswith(said.format(log=log)[:90])


def texts(raw):
    """TRL's file with texts for rewards."""
    return pd.read_parquet(io.BytesIO(raw)).assign(reward="good").to_parquet()


# What becomes of a step's file in a folder of such files, and what is said of it.
LOST = {
    "TRL, cut": ("completions_00002.parquet", lambda raw: raw[: len(raw) // 2],
        "cannot be read: .*; by its name a step's log: give it whole, or --partial"),
    "TRL, texts for rewards": ("completions_00002.parquet", texts,
        "which is the reward, .*; by its name"),
    "verl, cut": ("2.jsonl", lambda raw: raw[:9], "a JSON object a line, .*; by its name"),
    "verl, packed, cut": ("2.jsonl.gz", lambda raw: raw[:20], "is empty .*; by its name"),
    "verl, a late score": ("2.jsonl", lambda raw: raw.replace(b"score", b"sc") * 9 + raw,
        "line 289: has score, and earlier rows have none; give it in every row$"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOST)
def test_a_file_with_the_name_of_a_step_is_left_out_by_partial_alone(tmp_path, name):
    file, spoil, said = LOST[name]
    write_trl(tmp_path, with_advantages(BASE, 8))
    if name.startswith("verl"):
        shutil.rmtree(tmp_path / "completions")
        write_verl(tmp_path, BASE, file.removeprefix("2"))
    (path,) = tmp_path.rglob(file)
    path.write_bytes(spoil(path.read_bytes()))
    refuse(tmp_path, rf"{file}.*{said}")
    found = check(tmp_path, {"steps": 2, "groups": 8}, partial=True)
    assert [(one.count, one.what) for one in found.groups.left_out] == [
        (1, NO_LOG.removeprefix("1 "))
    ]
    named = rf"{file}((?!by its name).)*$"
    refuse([*path.parent.iterdir()], named)
    for other in {*path.parent.iterdir()} - {path}:
        other.unlink()
    refuse(tmp_path, named)  # Without it nothing would be left.


def test_a_link_beside_its_file_in_the_words(tmp_path):
    log = write_lines(tmp_path / "a.jsonl", ROWS)
    (tmp_path / "b.jsonl").symlink_to(log)
    check([log, log.parent / "b.jsonl", log], {"completions": SIZE})


def test_files_of_an_older_training_are_refused(tmp_path):
    """Steps 1 to 3 were written anew, and 4 is left of a longer training."""
    verl = {"output": "b", "gts": "", "score": 1.0}
    for step in range(1, 5):
        line = {"input": f"{step}", "step": step, **verl}
        log = write_lines(tmp_path / f"{step}.jsonl", [line])
        os.utime(
            log, (10**9 - 10**6 * (step == 4) - step, 10**9 - 10**6 * (step == 4) - step)
        )
    refuse(tmp_path, r"4\.jsonl: is older than 1\.jsonl, of an earlier")
    files = [tmp_path / f"{step}.jsonl" for step in range(1, 4)]
    check(files, {"completions": 3})


def test_a_step_of_two_files_is_of_two_trainings(tmp_path):
    for name in "ab":
        lines = [{"prompt_id": name, "step": 1, "reward": n} for n in range(2)]
        write_lines(tmp_path / f"{name}.jsonl", lines)
    refuse(tmp_path, r"step 1 comes in .*/a\.jsonl and .*/b\.jsonl: of")
    check([*tmp_path.iterdir()], {"groups": 2})


def test_names_go_escaped_to_the_screen(tmp_path):
    folder = tmp_path / "run\x1b[1m"
    put(write_lines(folder / "a.jsonl", ROWS), "train.jsonl", '{"question": "a"}\n')
    text = rollouts_text(read(folder))
    assert "\x1b" not in text
    assert "run\\x1b[1m" in text


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_a_file_that_ends_early(tmp_path, suffix):
    """In half a line, or in the middle of a compressed stream."""
    whole = write_lines(tmp_path / f"a{suffix}", ROWS).read_bytes()
    (tmp_path / f"a{suffix}").write_bytes(whole[: -40 if suffix == ".jsonl.gz" else -5])
    refuse(tmp_path, r"the file ends early; .* by --partial")
    found = read(tmp_path, partial=True)
    numbers = numbers_of(found)
    kept = BASE[: numbers["completions"]]
    assert 0 < len(kept) < SIZE
    assert numbers["mean_reward"] == pytest.approx(kept["reward"].mean())
    assert numbers["left_out"][0]["what"] == "file(s) that end early, read up to there"


def test_the_last_step_may_end_early_in_any_group(tmp_path):
    """In verl's mixed order the lines that are missing are of several groups."""
    made = [
        {"input": f"{step}-{n % 3}", "output": f"{n}", "gts": "", "score": n % 2.0}
        for step in (1, 2)
        for n in range(12)
    ]
    for step, some in ((1, made[:12]), (2, made[12:19])):
        rows = [one | {"step": step} for one in some]
        path = write_lines(tmp_path / f"{step}.jsonl", rows)
    path.write_bytes(path.read_bytes()[:-5])
    found = numbers_of(read(tmp_path, partial=True))
    assert (found["group_size"], found["groups"], found["completions"]) == (4, 6, 18)


def test_a_file_without_a_last_line_break_is_whole(tmp_path):
    log = write_lines(tmp_path / "a.jsonl", ROWS)
    log.write_text(log.read_text().rstrip())
    check(log, {"completions": SIZE})


# A file's name and content, and why it is no log: alone in a folder.
REFUSED = [
    ("a.jsonl", "epoch 1\nepoch 2\n" * 50, "as 100 of 100 lines: a log has a JSON object"),
    ("a.jsonl", '[{"prompt_id": 1, "reward": 1}]', "as 1 of 1 lines"),
    ("a.jsonl", '{"prompt_id": 1, "reward": 1}\n' + "{\n" * 3, "as 3 of 4 lines: a log"),
    ("a.jsonl", "{}".encode("utf-16"), "is UTF-16 or UTF-32; save it as UTF-8"),
    ("a.csv", "prompt".encode("utf-16"), "is UTF-16"),
    ("a.jsonl", "", r"a.jsonl: is empty \(no row has a column\); let the trainer"),
    ("a.jsonl", "{}\n" * 3, "is empty"),
    ("a.csv", "prompt,reward\n", "is empty"),
    ("a.txt", "", "has no .jsonl, .jsonl.gz, .parquet"),
    ("a.parquet", b"PAR1", "cannot be read"),
]


# What is named, and in a folder would be left out.
NAMED = [
    ("nothing", None, "no such file or folder"),
    ("a.pt", b"", "a pickle, which runs code when it is read, is never loaded"),
    ("a.csv.gz", b"", "only .jsonl.gz is read as it is"),
    ("a.jsonl", '{"question": "a"}\n', "its columns are question; which is the reward"),
    ("a.jsonl", '{"prompt": 1}\n' * 70 + '{"reward": 1}\n', "line 71: has reward, and e"),
]


@pytest.mark.parametrize(("name", "content", "line"), REFUSED + NAMED)
def test_what_is_no_log(tmp_path, name, content, line):
    log = write_lines(tmp_path / "log.jsonl", ROWS)
    if content is not None:
        put(log, f"alone/{name}", content)
    alone = (name, content, line) in REFUSED
    refuse(tmp_path / "alone" if alone else [log, tmp_path / "alone" / name], line)


def test_rollouts_in_two_folders_are_not_merged(tmp_path):
    write_lines(tmp_path / "1.jsonl", ROWS)
    write_lines(tmp_path / "validation/1.jsonl", ROWS[:8])
    refuse(tmp_path, r"in 2 folders, .* \(1\).*validation \(1\)")
    check(tmp_path / "validation", {"completions": 8})


def test_forms_are_not_mixed(tmp_path):
    write_trl(tmp_path, with_advantages(BASE, 8))
    write_lines(tmp_path / "completions/a.jsonl", ROWS)
    refuse(tmp_path, r"\(TRL\): of several forms")
