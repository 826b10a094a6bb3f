"""The files of probes: found by name, changed by `--set`, and written down again."""

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


@pytest.fixture
def root(tmp_path):
    for name in ("b", "tiny/base"):
        path = tmp_path / f"probes/{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("model: {path: x}\nprompts: {source: y}\n")
    return tmp_path


def test_a_probe_is_found_by_its_name_or_path(root):
    path = root / "probes/tiny/base.yaml"
    assert [name for name, _ in probe_files(root)] == ["b", "tiny/base"]
    assert probe_file("tiny/base", root) == probe_file(str(path), root) == path
    assert probe_name(path, root) == "tiny/base"
    assert probe_name(root / "elsewhere/mine.yaml", root) == "mine"
    with pytest.raises(InputError, match=r"no probe tiny/bse; did you mean tiny/base\?"):
        probe_file("tiny/bse", root)


def test_settings_are_changed_by_dotted_keys(root):
    changes = ["pool.replicate=512", "model.revision=main", "group_sizes=[2, 4]"]
    probe = load_probe(root / "probes/b.yaml", changes)
    assert (probe.pool.replicate, probe.pool.reference) == (512, 1024)
    assert probe.model.revision == "main"
    assert probe.group_sizes == [2, 4]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("pool", "not KEY=VALUE; write pool.replicate=128, say"),
        ("seed.first=1", "seed holds no keys; set it whole"),
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
