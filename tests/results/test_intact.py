"""A damaged file of a result is named in one line, whoever reads it and whatever it is."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import run_mse
from mse_lab.errors import InputError
from mse_lab.report.probe_list import list_probes
from mse_lab.results.files import write_arrays, write_json, write_table
from mse_lab.results.intact import (
    FROM_POOLS,
    MANIFEST,
    READERS,
    is_there,
    read,
    read_arrays,
)
from mse_lab.results.records import Record
from mse_lab.run import prepare, resume


@pytest.fixture
def copy(project, tmp_path):
    """A copy of the finished run, to be damaged."""
    return Record(shutil.copytree(project / "results/small", tmp_path / "results/small"))


def in_its_place(path):
    path.unlink()
    path.mkdir()


def pipe_in_its_place(path):
    path.unlink()
    os.mkfifo(path)


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "a folder": in_its_place,
    "a pipe": pipe_in_its_place,
}


@pytest.mark.parametrize("manifest", [True, False], ids=["manifest", "no manifest"])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", READERS)
def test_whatever_is_damaged_is_named(copy, name, damage, manifest):
    if not manifest:
        copy.path(MANIFEST).unlink()
        if name == MANIFEST:
            return
    DAMAGES[damage](copy.path(name))
    says = copy.damage()
    assert says.startswith(f"{copy.path(name)}: damaged (")
    if name in FROM_POOLS:
        remedy = "python run_mse.py run PROBE makes it again from pools.npz"
    else:
        remedy = "restore it, or measure again with python run_mse.py run PROBE --fresh"
    assert says.endswith(f"; {remedy}")
    assert "\n" not in says


def test_a_manifest_tells_a_single_digit(copy):
    path = copy.path("mse.csv")
    text = path.read_text()
    path.write_text(text[:-2] + ("1" if text[-2] != "1" else "2") + "\n")
    assert "its checksum is not the one in manifest.json" in copy.damage()
    copy.path(MANIFEST).unlink()
    assert not copy.damage()


def test_the_manifest_knows_every_file_and_what_is_absent_is_no_damage(copy):
    written = {path.name for path in copy.folder.iterdir()}
    assert set(json.loads(copy.path(MANIFEST).read_text())) == written - {MANIFEST}
    for name in ("pools.npz", "errors.npz", "completions.jsonl"):
        copy.path(name).unlink()
    assert not copy.damage()
    output = copy.folder.parent / "f.svg"
    assert run_mse.main(["figure", str(copy.folder), "--out", str(output)]) == 0


COMMANDS = ["run", "plan", "figure", "claims", "advise", "report"]


def put(command, project, copy):
    """Put a run to a command."""
    if command in ("run", "plan"):
        probe = project / "probes/small.yaml"
        return run_mse.main([command, str(probe), "--out", str(copy.folder.parent)])
    out = ["--out", str(copy.folder / "f.svg")] if command == "figure" else []
    return run_mse.main([command, str(copy.folder), *out])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_reads_a_whole_run(command, project, copy, capsys):
    assert put(command, project, copy) == 0
    assert "damaged" not in str(capsys.readouterr())


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((command, "mse.csv") for command in COMMANDS if command not in ("run", "plan")),
        *(
            (command, "pools.npz")
            for command in ("run", "plan", "claims", "advise", "report")
        ),
        ("run", "completions.jsonl"),
        ("run", "diagnostics.json"),
        ("plan", "config.yaml"),
        ("figure", "checks.json"),
        ("report", "environment.json"),
    ],
)
def test_commands_name_what_is_damaged(command, name, project, copy, capsys):
    DAMAGES["cut"](copy.path(name))
    assert put(command, project, copy) == 2
    said = capsys.readouterr().err
    assert f"{copy.path(name)}: damaged" in said
    assert said.count("\n") == 1


def test_the_list_says_so_and_goes_on(project, copy):
    assert " finished " in list_probes(project, copy.folder.parent)
    DAMAGES["cut"](copy.path("errors.npz"))
    assert "  damaged  " in list_probes(project, copy.folder.parent)


def test_a_fresh_start_measures_again(project, copy, capsys):
    expected = copy.path("mse.csv").read_bytes()
    DAMAGES["cut"](copy.path("mse.csv"))
    DAMAGES["cut"](copy.path("config.yaml"))
    words = ["run", str(project / "probes/small.yaml"), "--out", str(copy.folder.parent)]
    assert run_mse.main([*words, "--fresh"]) == 0
    assert copy.path("mse.csv").read_bytes() == expected
    assert not copy.damage()
    in_its_place(copy.path("mse.csv"))
    assert run_mse.main([*words, "--fresh"]) == 2
    assert "mse.csv: cannot be removed: Is a directory" in capsys.readouterr().err


@pytest.mark.parametrize("manifest", [True, False], ids=["manifest", "no manifest"])
@pytest.mark.parametrize("damage", ["gone", "cut"])
@pytest.mark.parametrize("lost", [*([name] for name in FROM_POOLS), FROM_POOLS], ids=str)
def test_what_follows_from_the_pools_is_made_again(
    lost, damage, manifest, project, copy, capsys, monkeypatch
):
    """Byte for byte, without a model."""
    expected = {path.name: path.read_bytes() for path in copy.folder.iterdir()}
    for name in lost if manifest else [*lost, MANIFEST]:
        if damage == "cut" and name != MANIFEST:
            DAMAGES["cut"](copy.path(name))
        else:
            copy.path(name).unlink()
    monkeypatch.setattr(prepare, "load_policy", None)
    assert put("run", project, copy) == 0
    said = capsys.readouterr()
    assert said.out.startswith(
        f"{copy.folder}: {', '.join(lost)} made again from pools.npz\n"
    )
    assert not said.err
    assert {path.name: path.read_bytes() for path in copy.folder.iterdir()} == expected
    assert put("run", project, copy) == 0
    assert "finished before, left as it is" in capsys.readouterr().out


BESIDE_A_LOST_TABLE = {
    "other damage": (lambda copy: DAMAGES["cut"](copy.path("diagnostics.json")), "damaged"),
    "no completions": (lambda copy: copy.path("completions.jsonl").unlink(), "missing"),
    "fewer completions": (
        lambda copy: copy.path("completions.jsonl").write_bytes(
            b"".join(copy.path("completions.jsonl").read_bytes().splitlines(True)[:-1])
        ),
        "are not of one run",
    ),
}


@pytest.mark.parametrize("other", BESIDE_A_LOST_TABLE)
def test_what_does_not_follow_is_asked_for(other, project, copy, capsys, monkeypatch):
    """Nothing is measured, and nothing more is lost."""
    spoil, says = BESIDE_A_LOST_TABLE[other]
    copy.path(MANIFEST).unlink()
    DAMAGES["cut"](copy.path("prompts.csv"))
    spoil(copy)
    there = sorted(path.name for path in copy.folder.iterdir())
    monkeypatch.setattr(prepare, "load_policy", None)
    assert put("run", project, copy) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in copy.folder.iterdir()) == there


def test_a_lost_table_is_no_room_for_another_configuration(project, copy, capsys):
    copy.path("mse.csv").unlink()
    assert " a table lost " in list_probes(project, copy.folder.parent)
    words = [str(project / "probes/small.yaml"), "--out", str(copy.folder.parent)]
    for command in ("plan", "run"):
        assert run_mse.main([command, *words, "--set", "seed=5"]) == 2
        assert "belongs to another configuration (seed" in capsys.readouterr().err
    assert run_mse.main(["plan", *words]) == 0
    assert "mse.csv is made again from pools.npz" in capsys.readouterr().out


def test_damage_beside_shards_is_mended_from_them(project, copy, monkeypatch):
    """The shards of a run that was stopped after its tables, before it dropped them."""
    expected = copy.path("mse.csv").read_bytes()
    monkeypatch.setattr(Record, "drop_shards", lambda record: None)
    words = ["run", str(project / "probes/small.yaml"), "--out", str(copy.folder.parent)]
    assert run_mse.main([*words, "--fresh"]) == 0
    DAMAGES["cut"](copy.path("mse.csv"))
    DAMAGES["cut"](copy.path("completions.jsonl"))
    monkeypatch.setattr(resume, "measure_prompt", None)
    assert run_mse.main(words) == 0
    assert copy.path("mse.csv").read_bytes() == expected
    assert not copy.damage()


NAMES = ["NA", "nan", "001", "true", "1e5", "none", "", "NULL", "a,b", '"', "-1", " x"]


def test_names_stay_what_they_are(tmp_path):
    prompts = pd.DataFrame({"prompt": NAMES, "category": NAMES[::-1], "value": 0.5})
    write_table(tmp_path / "prompts.csv", prompts)
    found = read(tmp_path / "prompts.csv")
    assert found["prompt"].tolist() == NAMES
    assert found["category"].tolist() == NAMES[::-1]


@pytest.mark.parametrize("name", NAMES[:6])
def test_a_runs_name_stays_what_it_is(copy, name, capsys):
    copy.path(MANIFEST).unlink()
    table = copy.read_table("mse.csv").assign(probe=name)
    write_table(copy.path("mse.csv"), table)
    assert run_mse.main(["claims", str(copy.folder)]) == 0
    assert f"| statement | kind | {name} |" in capsys.readouterr().out
    assert copy.read_table("mse.csv")["probe"].unique().tolist() == [name]


def cell(column, value):
    """Put a value at the top of a column of `mse.csv`."""

    def change(table):
        return table.assign(**{column: [value, *table[column][1:]]})

    return change


TABLES = {
    "no column law_low": lambda table: table.drop(columns="law_low"),
    "no rows": lambda table: table[:0],
    "column mse holds what is no such number": cell("mse", "many"),
    "column group_size holds what is no such number": cell("group_size", 2.5),
    "column replicates holds what is no such number": cell("replicates", -1),
    "column law holds inf": cell("law", np.inf),
    "column mse_low holds 1e\\+300": cell("mse_low", 1e300),
}


@pytest.mark.parametrize("says", TABLES)
def test_tables_that_no_run_writes_are_refused(copy, says):
    path = copy.path("mse.csv")
    write_table(path, TABLES[says](copy.read_table("mse.csv")))
    copy.path(MANIFEST).unlink()
    with pytest.raises(InputError, match=rf"mse\.csv: damaged \({says}\)"):
        read(path)


def test_tables_of_earlier_versions_lack_columns(copy):
    copy.path(MANIFEST).unlink()
    table = copy.read_table("mse.csv")
    write_table(copy.path("mse.csv"), table.drop(columns="scale_free_mse"))
    assert copy.read_table("mse.csv")["scale_free_mse"].isna().all()


JSON = {
    "checks.json": [[], {"ok": True}, {"ok": True, "checks": [{"name": 1}]}],
    "diagnostics.json": [1, "text"],
    "environment.json": [[], {"seconds": "many"}, {"seconds": 10**400}, {"seconds": []}],
    "checkpoint.json": [[], {"model": 1}],
    "manifest.json": [[], {"mse.csv": None}],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in JSON.items() for value in values],
    ids=lambda value: str(value)[:40],
)
def test_values_of_another_shape_are_refused(tmp_path, name, value):
    write_json(tmp_path / name, value)
    with pytest.raises(InputError, match=rf"{name}: damaged \("):
        read(tmp_path / name)


BOMBS = {
    "aliases": "\n".join(["a0: &a0 [x, x]", *(
        f"a{one}: &a{one} [*a{one - 1}, *a{one - 1}]" for one in range(1, 40)
    )]) + "\n",
    "depth": f"a: {'[' * 900}{']' * 900}\n",
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_configuration_that_grows_is_refused(tmp_path, bomb):
    (tmp_path / "config.yaml").write_text(BOMBS[bomb])
    with pytest.raises(InputError, match=r"config\.yaml: damaged \(.*more than"):
        read(tmp_path / "config.yaml")


def test_parts_of_two_runs_are_told_apart(copy, capsys):
    copy.path(MANIFEST).unlink()
    write_table(copy.path("prompts.csv"), copy.read_table("prompts.csv")[:2])
    assert run_mse.main(["report", str(copy.folder)]) == 2
    assert "are not of one run; restore" in capsys.readouterr().err


def test_wide_rewards_are_refused_in_a_sentence(copy, capsys):
    copy.path(MANIFEST).unlink()
    arrays = read_arrays(copy.path("pools.npz"))
    write_arrays(
        copy.path("pools.npz"), {**arrays, "rewards_PN": arrays["rewards_PN"] + 1e300}
    )
    for command in ("claims", "advise", "report"):
        assert run_mse.main([command, str(copy.folder)]) == 2
        said = capsys.readouterr().err
        assert "rewards_PN: holds 1e+300" in said
        assert said.count("\n") == 1


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    """Root may read everything, so it is refused by hand."""

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    write_json(tmp_path / "checks.json", {})
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"checks\.json: may not be read; allow it"):
        read(tmp_path / "checks.json")
    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(
        InputError, match=r"checks\.json: cannot be read: Permission denied"
    ):
        is_there(tmp_path / "checks.json")


def test_a_missing_file_is_called_missing(copy):
    assert not is_there(copy.folder / "none")
    assert not is_there(copy.path("mse.csv") / "none")
    with pytest.raises(InputError, match=r"laws\.csv: missing; restore it"):
        read(copy.folder / "none/laws.csv")
