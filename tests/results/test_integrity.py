"""A damaged file of a result is named in one line, whoever reads it and whatever it is."""

import json
import os
from pathlib import Path

import pytest

import run_mse
from mse_lab.errors import InputError
from mse_lab.report.probe_list import list_probes
from mse_lab.results.files import write_json, write_table
from mse_lab.results.integrity import exists, read_intact
from mse_lab.results.inventory import FROM_MODEL, FROM_POOLS, MANIFEST, REPEATABLE

# What every run has.
OF_A_RUN = {*FROM_POOLS, *FROM_MODEL, MANIFEST}


def cut(content):
    """Cut near the middle, but not between two rows, which only a manifest tells."""
    return content[: len(content) // 2].removesuffix(b"\n")


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(cut(path.read_bytes())),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
}


@pytest.mark.parametrize("manifest", [True, False], ids=["manifest", "no manifest"])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", sorted(OF_A_RUN))
def test_whatever_is_damaged_is_named(copy, name, damage, manifest):
    if not manifest:
        copy.file(MANIFEST).unlink()
        if name == MANIFEST:
            return
    DAMAGES[damage](copy.file(name))
    says = copy.damage()
    assert says.startswith(f"{copy.file(name)}: damaged (")
    if name in FROM_POOLS:
        remedy = "mse-lab run PROBE makes it again from pools.npz"
    else:
        remedy = "restore it, or measure again with mse-lab run PROBE --fresh"
    assert says.endswith(f"; {remedy}")
    assert "\n" not in says


def test_a_manifest_tells_a_single_digit(copy):
    path = copy.file("mse.csv")
    text = path.read_text()
    path.write_text(text[:-2] + ("1" if text[-2] != "1" else "2") + "\n")
    assert "its checksum is not the one in manifest.json" in copy.damage()
    copy.file(MANIFEST).unlink()
    assert not copy.damage()


def test_the_manifest_knows_every_file_and_what_is_absent_is_no_damage(copy):
    """All but what no repetition gives again."""
    written = {path.name for path in copy.path.iterdir()}
    known = set(json.loads(copy.file(MANIFEST).read_text()))
    assert known == set(REPEATABLE)
    assert known == written - {MANIFEST, "environment.json"}
    for name in ("pools.npz", "errors.npz", "completions.jsonl"):
        copy.file(name).unlink()
    assert not copy.damage()
    output = copy.path.parent / "f.svg"
    assert run_mse.main(["figure", str(copy.path), "--out", str(output)]) == 0


COMMANDS = ["run", "plan", "figure", "claims", "advise", "report"]


def put(command, project, copy):
    if command in ("run", "plan"):
        probe = project / "probes/small.yaml"
        return run_mse.main([command, str(probe), "--out", str(copy.path.parent)])
    out = ["--out", str(copy.path / "f.svg")] if command == "figure" else []
    return run_mse.main([command, str(copy.path), *out])


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
    DAMAGES["cut"](copy.file(name))
    assert put(command, project, copy) == 2
    said = capsys.readouterr().err
    assert f"{copy.file(name)}: damaged" in said
    assert said.count("\n") == 1


def test_the_list_says_so_and_goes_on(project, copy):
    assert "  finished" in list_probes(project, copy.path.parent)
    DAMAGES["cut"](copy.file("errors.npz"))
    assert "  damaged: " in list_probes(project, copy.path.parent)


def test_a_fresh_start_measures_again(project, copy, capsys):
    expected = copy.file("mse.csv").read_bytes()
    DAMAGES["cut"](copy.file("mse.csv"))
    DAMAGES["cut"](copy.file("config.yaml"))
    words = ["run", str(project / "probes/small.yaml"), "--out", str(copy.path.parent)]
    assert run_mse.main([*words, "--fresh"]) == 0
    assert copy.file("mse.csv").read_bytes() == expected
    assert not copy.damage()
    copy.file("mse.csv").unlink()
    copy.file("mse.csv").mkdir()
    assert run_mse.main([*words, "--fresh"]) == 2
    assert "mse.csv: cannot be removed: Is a directory" in capsys.readouterr().err


def test_parts_of_two_runs_are_told_apart(copy, capsys):
    copy.file(MANIFEST).unlink()
    write_table(copy.file("prompts.csv"), copy.read("prompts.csv")[:2])
    assert run_mse.main(["report", str(copy.path)]) == 2
    assert "are not of one run; restore" in capsys.readouterr().err


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    """Root may read everything, so it is refused by hand."""

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    write_json(tmp_path / "checks.json", {})
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"checks\.json: Permission denied; restore it"):
        read_intact(tmp_path / "checks.json")
    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(
        InputError, match=r"checks\.json: cannot be read: Permission denied"
    ):
        exists(tmp_path / "checks.json")


def test_a_pipe_is_no_file(tmp_path):
    """Opening one would wait for another process to write into it."""
    os.mkfifo(tmp_path / "checks.json")
    with pytest.raises(InputError, match=r"checks\.json: damaged \(.*it is no file"):
        read_intact(tmp_path / "checks.json")


def test_a_missing_file_is_called_missing(copy):
    assert not exists(copy.path / "none")
    assert not exists(copy.file("mse.csv") / "none")
    with pytest.raises(InputError, match=r"laws\.csv: missing; restore it"):
        read_intact(copy.path / "none/laws.csv")
