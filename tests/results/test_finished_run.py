"""What is lost of a finished run and follows from its pools is made again."""

import pytest

import run_mse
from mse_lab.report.probe_list import list_probes
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.inventory import FROM_POOLS, MANIFEST
from mse_lab.run import prepare, run_probe
from results.test_integrity import DAMAGES, put


@pytest.mark.parametrize("manifest", [True, False], ids=["manifest", "no manifest"])
@pytest.mark.parametrize("damage", ["gone", "cut"])
@pytest.mark.parametrize("lost", [*([name] for name in FROM_POOLS), FROM_POOLS], ids=str)
def test_what_follows_from_the_pools_is_made_again(
    lost, damage, manifest, project, copy, capsys, monkeypatch
):
    """Byte for byte, without a model."""
    expected = {path.name: path.read_bytes() for path in copy.path.iterdir()}
    for name in lost if manifest else [*lost, MANIFEST]:
        if damage == "cut" and name != MANIFEST:
            DAMAGES["cut"](copy.file(name))
        else:
            copy.file(name).unlink()
    monkeypatch.setattr(prepare, "load_policy", None)
    assert put("run", project, copy) == 0
    said = capsys.readouterr()
    assert said.out.startswith(
        f"{copy.path}: {', '.join(lost)} made again from pools.npz\n"
    )
    assert not said.err
    assert {path.name: path.read_bytes() for path in copy.path.iterdir()} == expected
    assert put("run", project, copy) == 0
    assert "finished before, left as it is" in capsys.readouterr().out


def test_a_table_that_was_changed_beside_no_manifest_is_made_again(project, copy, capsys):
    """It would be taken as the run's: a manifest of it would be written."""
    table, before = copy.file("mse.csv"), copy.file("mse.csv").read_bytes()
    table.write_bytes(before.replace(b"1", b"2"))
    copy.file(MANIFEST).unlink()
    copy.file(f".{MANIFEST}.part").touch()
    assert put("run", project, copy) == 0
    assert "mse.csv made again from pools.npz" in capsys.readouterr().out
    assert table.read_bytes() == before
    assert copy.has(MANIFEST)


BESIDE_A_LOST_TABLE = {
    "other damage": (lambda copy: DAMAGES["cut"](copy.file("diagnostics.json")), "damaged"),
    "no completions": (lambda copy: copy.file("completions.jsonl").unlink(), "missing"),
    "fewer completions": (
        lambda copy: copy.file("completions.jsonl").write_bytes(
            b"".join(copy.file("completions.jsonl").read_bytes().splitlines(True)[:-1])
        ),
        "are not of one run",
    ),
}


@pytest.mark.parametrize("other", BESIDE_A_LOST_TABLE)
def test_what_does_not_follow_is_asked_for(other, project, copy, capsys, monkeypatch):
    """Nothing is measured, and nothing more is lost."""
    spoil, says = BESIDE_A_LOST_TABLE[other]
    copy.file(MANIFEST).unlink()
    DAMAGES["cut"](copy.file("prompts.csv"))
    spoil(copy)
    there = sorted(path.name for path in copy.path.iterdir())
    monkeypatch.setattr(prepare, "load_policy", None)
    assert put("run", project, copy) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in copy.path.iterdir()) == there


def test_a_lost_table_is_no_room_for_another_configuration(project, copy, capsys):
    copy.file("mse.csv").unlink()
    assert "  run makes it whole" in list_probes(project, copy.path.parent)
    words = [str(project / "probes/small.yaml"), "--out", str(copy.path.parent)]
    for command in ("plan", "run"):
        assert run_mse.main([command, *words, "--set", "seed=5"]) == 2
        assert "belongs to another configuration (seed" in capsys.readouterr().err
    assert run_mse.main(["run", *words]) == 0
    assert "mse.csv made again from pools.npz" in capsys.readouterr().out


def test_damage_beside_shards_is_mended_from_them(project, copy, monkeypatch):
    """The shards of a run that was stopped after its tables, before it dropped them."""
    expected = copy.file("mse.csv").read_bytes()
    monkeypatch.setattr(ResultsFolder, "drop_shards", lambda results: None)
    words = ["run", str(project / "probes/small.yaml"), "--out", str(copy.path.parent)]
    assert run_mse.main([*words, "--fresh"]) == 0
    DAMAGES["cut"](copy.file("mse.csv"))
    DAMAGES["cut"](copy.file("completions.jsonl"))
    monkeypatch.setattr(run_probe, "measure_prompt", None)
    assert run_mse.main(words) == 0
    assert copy.file("mse.csv").read_bytes() == expected
    assert not copy.damage()
