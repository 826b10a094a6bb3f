"""A damaged file is refused in a line; what follows from the pools is made again."""

import json
import os
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mse_lab.errors import InputError
from mse_lab.project import PROJECT as ROOT
from mse_lab.results.files import write_file
from mse_lab.results.folder import (
    FROM_POOLS,
    READERS,
    REPAIR,
    RESTORE,
    SEALED,
    ResultsFolder,
    read_intact,
    read_table,
)
from mse_lab.run import context
from written_runs import put

COMMITTED = [
    *sorted(ROOT.glob("results/*/*/checks.json")),
    *ROOT.glob("mse_lab/examples/*/checks.json"),
]


def cut(content):
    """Cut near the middle, but not between two rows, as no disk does."""
    return content[: len(content) // 2].removesuffix(b"\n")


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(cut(path.read_bytes())),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
}
JSON = {
    "checks.json": [[], {"ok": True}, {"ok": True, "checks": [{"name": 1}]}],
    "diagnostics.json": [1, "text"],
    "environment.json": [[], 1],
    "config.yaml": [["text"], "text"],
    "checkpoint.json": [[], {"model": 1}],
}
TABLES = {
    "no column law_low": lambda table: table.drop(columns="law_low"),
    "no rows": lambda table: table[:0],
    "could not convert": lambda table: table.assign(mse="many"),
}


def holds(value):
    """Damage a file so that it has a value of another shape."""
    return lambda path: path.write_text(json.dumps(value) + "\n")


def changes(change):
    """Damage a table so that no run writes it."""
    return lambda path: write_file(path, change(read_intact(path)))


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        *product(sorted({*READERS} - {"completions.jsonl"}), DAMAGES.values(), [""]),
        *((name, holds(one), "") for name, values in JSON.items() for one in values),
        *(("mse.csv", changes(change), says) for says, change in TABLES.items()),
    ],
)
def test_whatever_is_damaged_is_named(copy, name, damage, says):
    damage(copy.file(name))
    with pytest.raises(InputError) as refusal:
        copy.read(name)
    said = str(refusal.value)
    assert said.startswith(f"{copy.file(name)}: damaged ({says}")
    assert "pydantic" not in said
    assert said.endswith(f"; {REPAIR if name in FROM_POOLS else RESTORE}")


@pytest.fixture
def ask(project, copy, capsys):
    """Return a function that puts a command to the copy; it answers, or in one line not."""

    def put_it(command, *words, status=0):
        capsys.readouterr()
        assert put(command, project, copy.path, *words) == status
        said = capsys.readouterr()
        assert status == 0 or said.err.count("\n") == 1
        return said.err or said.out

    return put_it


COMMANDS = ["run", "figure", "claims", "advise", "report"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((command, "mse.csv") for command in COMMANDS if command != "run"),
        *((command, "pools.npz") for command in COMMANDS if command != "figure"),
        ("run", "diagnostics.json"),
        ("run", "checkpoint.json"),
        ("run", "config.yaml"),
        ("figure", "checks.json"),
        ("report", "environment.json"),
    ],
)
def test_commands_name_what_is_damaged(command, name, copy, ask):
    DAMAGES["cut"](copy.file(name))
    assert f"{copy.file(name)}: damaged" in ask(command, status=2)


def test_a_fresh_start_measures_again(copy, ask):
    expected = copy.file("mse.csv").read_bytes()
    for name in ("mse.csv", "pools.npz", "config.yaml", "checkpoint.json"):
        DAMAGES["cut"](copy.file(name))
    ask("run", "--fresh")
    assert copy.file("mse.csv").read_bytes() == expected
    ask("run")
    copy.file("mse.csv").unlink()
    copy.file("mse.csv").mkdir()
    said = ask("run", "--fresh", status=2)
    assert "mse.csv: cannot be written: Is a directory" in said


@pytest.mark.parametrize(
    ("lost", "damage"),
    [*(([name], "cut") for name in FROM_POOLS), (FROM_POOLS, "gone")],
    ids=str,
)
def test_what_follows_from_the_pools_is_made_again(lost, damage, copy, ask, monkeypatch):
    """Byte for byte, without a model."""
    expected = {path.name: path.read_bytes() for path in copy.path.iterdir()}
    for path in map(copy.file, lost):
        DAMAGES["cut"](path) if damage == "cut" else path.unlink()
    monkeypatch.setattr(context, "load_policy", None)
    again = f"{copy.path}: {', '.join(lost)} made again from pools.npz\n"
    assert ask("run").startswith(again)
    assert {path.name: path.read_bytes() for path in copy.path.iterdir()} == expected
    assert "finished before, left as it is" in ask("run")


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("prompts.csv", "mse.csv"),
        ("prompts.csv", None),
        ("pools.npz", "mse.csv"),
        ("diagnostics.json", "mse.csv"),
    ],
)
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_what_does_not_follow_is_asked_for(name, beside, damage, copy, ask, monkeypatch):
    """Nothing is measured, and nothing more is lost."""
    monkeypatch.setattr(context, "load_policy", None)
    for lost in filter(None, (name, beside)):
        DAMAGES["cut"](copy.file(lost))
    if damage == "gone" and name == "prompts.csv":
        copy.file(name).unlink()
    there = sorted(path.name for path in copy.path.iterdir())
    kind = "missing" if name not in there else "damaged"
    assert f"{copy.file(name)}: {kind}" in ask("run", status=2)
    assert sorted(path.name for path in copy.path.iterdir()) == there


def test_a_lost_table_is_no_room_for_another_configuration(copy, ask):
    copy.file("mse.csv").unlink()
    said = ask("run", "--set", "seed=5", status=2)
    assert "belongs to another configuration (seed" in said


def test_tables_without_raw_data_serve_the_figure(copy, ask):
    """As they are committed; `run` measures them again."""
    for name in ("pools.npz", "errors.npz", "completions.jsonl"):
        copy.file(name).unlink()
    ask("figure")


def test_parts_of_two_runs_are_told_apart(copy, ask):
    write_file(copy.file("prompts.csv"), copy.read("prompts.csv")[:2])
    copy.seal(["prompts.csv"])
    assert "are not of one run; restore" in ask("report", status=2)


def test_a_file_that_cannot_be_read(tmp_path, copy, monkeypatch):
    """A missing one, a pipe, and what root may read, so that it is refused by hand."""

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    with pytest.raises(InputError, match=r"laws\.csv: missing; restore it"):
        read_intact(copy.path / "none/laws.csv")
    os.mkfifo(tmp_path / "checks.json")  # Opening one would wait for another process.
    with pytest.raises(InputError, match=r"checks\.json: damaged \(.*it is no file"):
        read_intact(tmp_path / "checks.json")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"mse\.csv: Permission denied; .* makes it again"):
        read_intact(copy.file("mse.csv"))


NAMES = ["NA", "nan", "001", "true", "1e5", "none", "", "NULL", "a,b", '"', "-1", " x"]


def test_texts_stay_what_they_are(tmp_path):
    """In every column of texts, whatever a number or a missing one looks like."""
    path, texts = tmp_path / "some.csv", ["probe", "estimator", "prompt", "category"]
    write_file(path, pd.DataFrame({**dict.fromkeys(texts, NAMES), "value": 0.5}))
    with path.open("rb") as file:
        found = read_table(file, texts)
    assert all(found[name].tolist() == NAMES for name in texts)
    assert found["value"].unique().tolist() == [0.5]


def of_another_run(copy, name):
    """Change a number of a file, so that it is sound, and could be another run's."""
    path = copy.file(name)
    if path.suffix == ".csv":
        table = read_intact(path)
        column = "value" if name == "prompts.csv" else "law"
        write_file(path, table.assign(**{column: table[column] * 1.01}))
    else:
        arrays = dict(np.load(path))
        write_file(path, arrays | {"rewards_PN": 1 - arrays["rewards_PN"]})


@pytest.mark.parametrize("name", SEALED)
def test_what_answers_are_read_from_is_as_the_run_wrote_it(name, copy, ask):
    of_another_run(copy, name)
    commands = ["claims", "advise", "report"]
    readers = [*commands, *["figure"] * (name in FROM_POOLS)]
    # No command reads laws at further sizes back, but `run` restores them.
    for command in readers if name != "laws.csv" else []:
        said = ask(command, status=2)
        assert f"{copy.file(name)}: not as the run wrote it, by its digest in chec" in said
    if name in FROM_POOLS:
        assert f"{name} made again from pools.npz" in ask("run")
        for command in commands:
            ask(command)
    else:
        ask("run", status=2)


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.parent.name)
def test_committed_runs_are_sealed(path):
    """If tables are made anew on purpose: `ResultsFolder(folder).seal(SEALED)`."""
    folder = ResultsFolder(path.parent)
    there = {name for name in SEALED if folder.has(name)}
    assert folder.read_checks().seals.keys() == there
    for name in there:
        folder.read(name)
