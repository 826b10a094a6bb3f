"""The files of probes: found by name, changed by `--set`, and written down again."""

import os
from pathlib import Path

import pytest

from mse_lab.errors import InputError
from mse_lab.probe.plain_text import parse_yaml
from mse_lab.probe.probe_files import (
    assign,
    dump_probe,
    load_probe,
    parse_probe,
    probe_file,
    probe_files,
    probe_name,
)

LEAST = "model: {path: x}\nprompts: {source: y}\n"


def write(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LEAST)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project, and another folder beside it where one works."""
    write(*(tmp_path / f"probes/{name}.yaml" for name in ("b", "tiny/base")))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def test_a_probe_is_found_by_its_name_or_path(root):
    path = root / "probes/tiny/base.yaml"
    assert [name for name, _ in probe_files(root)] == ["b", "tiny/base"]
    assert probe_file("tiny/base", root) == probe_file(str(path), root) == path
    assert probe_name(path, root) == "tiny/base"
    assert probe_name(root / "elsewhere/mine.yaml", root) == "mine"
    with pytest.raises(InputError, match=r"no probe tiny/bse; did you mean tiny/base\?"):
        probe_file("tiny/bse", root)


def test_what_lies_where_one_works_goes_before_the_project_s(root):
    """What is no probe in the folder itself is left out."""
    write(Path("mine.yaml"), Path("probes/tiny/base.yaml"), Path("probes/more.yaml"))
    Path("compose.yaml").write_text("services: {}\n")
    Path("broken.yaml").write_text("model: [\n")
    os.mkfifo("endless.yaml")
    names = [name for name, _ in probe_files(root)]
    assert names == ["more", "tiny/base", "mine", "b"]
    for name, path in probe_files(root):
        assert probe_file(name, root) == path
        assert probe_name(path, root) == name
    assert probe_file("tiny/base", root) == Path("probes/tiny/base.yaml")
    assert probe_file("b", root) == root / "probes/b.yaml"


def test_without_a_project_and_probes_one_is_to_be_written(root):
    nowhere = root / "nowhere"
    assert list(probe_files(nowhere)) == []
    with pytest.raises(InputError, match=r"no probe x; write one: .* init MODEL"):
        probe_file("x", nowhere)


def test_paths_start_from_the_probe_s_folder_where_that_leads_to_something(root):
    """Not what is a template's name or a Hub's, nor what is set by the command."""
    write(Path("sub/mine.yaml"), Path("sub/x"), Path("sub/none"), Path("y"))
    text = LEAST.replace("y}", "y, template: none, shots: {count: 1, source: x}}")
    Path("sub/mine.yaml").write_text(text)
    probe = load_probe(Path("sub/mine.yaml"))
    assert (probe.model.path, probe.prompts.shots.source) == ("sub/x", "sub/x")
    assert (probe.prompts.source, probe.prompts.template) == ("y", "none")
    assert load_probe(Path("sub/mine.yaml").absolute()) == probe
    set_here = load_probe(Path("sub/mine.yaml"), ["model.path=x"])
    assert set_here.model.path == "x"
    outside = load_probe(Path("../probes/b.yaml"))
    assert outside.model.path == "x"
    write(root / "probes/x")
    assert load_probe(Path("../probes/b.yaml")).model.path == str(Path("../probes/x"))


def test_a_new_source_is_not_looked_for_where_the_old_one_was(root):
    """A file has no subset, split and revision; another data set no such revision."""
    path = root / "probes/b.yaml"
    of_hub = (
        "o/y, subset: main, split: test, revision: abc, shots: {count: 1, split: train}}"
    )
    path.write_text(LEAST.replace("y}", of_hub))
    assert load_probe(path).prompts.revision == "abc"
    at_hub = load_probe(path, ["prompts.source=o/z"]).prompts
    assert (at_hub.subset, at_hub.split, at_hub.revision) == ("main", "test", None)
    in_file = load_probe(path, ["prompts.source=z.jsonl"]).prompts
    assert (in_file.subset, in_file.split, in_file.revision) == (None, None, None)
    assert in_file.shots.split == "train"
    set_too = load_probe(path, ["prompts.revision=def", "prompts.source=o/z"]).prompts
    assert set_too.revision == "def"
    shots = ["prompts.shots.source=z.jsonl"]
    assert load_probe(path, shots).prompts.shots.split is None


def test_settings_are_changed_by_dotted_keys(root):
    changes = ["pool.replicate=512", "model.revision=main", "group_sizes=[2, 4]"]
    probe = load_probe(root / "probes/b.yaml", changes)
    assert (probe.pool.replicate, probe.pool.reference) == (512, 1024)
    assert probe.model.revision == "main"
    assert probe.group_sizes == [2, 4]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("pool", "not KEY=VALUE; write for example pool.replicate=128"),
        ("seed.first=1", "seed has no keys; set its value"),
        ("pool={", "not valid YAML"),
    ],
)
def test_an_assignment_that_cannot_be_carried_out(assignment, message):
    with pytest.raises(InputError, match=message) as refused:
        assign({"seed": 1}, assignment)
    assert str(refused.value).startswith(f"--set {assignment}: ")


def test_what_is_written_down_is_the_same_probe(root):
    probe = load_probe(root / "probes/b.yaml", ["model.adapter={rank: 4}"])
    assert parse_probe(parse_yaml(dump_probe(probe), "again"), "again") == probe


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {}}, "mine: model.path is missing; add it"),
        ({"pol": {}}, "mine: unknown key pol; did you mean pool?"),
        ({"group_sizes": [4, 0]}, "mine: group_sizes.1 = 0: should be greater"),
        ({"pool": {"replicate": 100}}, "mine: pool.replicate = 100: must be a multiple"),
    ],
)
def test_the_key_is_named(changes, message):
    values = {"model": {"path": "x"}, "prompts": {"source": "y"}} | changes
    with pytest.raises(InputError) as refused:
        parse_probe(values, "mine")
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("file", ["...yaml", "..yaml", "probes/...yaml"])
def test_a_name_stays_within_the_results(root, file):
    with pytest.raises(InputError, match="the file's name names no folder; rename it"):
        probe_name(Path(file), root)
