"""Bad input, through the real command line: one line, and nothing is lost."""

import shutil
from pathlib import Path

import pytest
import yaml

BAD = {
    "unknown key": ({"pol": {}}, "unknown key pol; did you mean pool?"),
    "group of one": ({"group_sizes": [1, 8]}, "grpo needs groups of 2 or more"),
    "not dividing": ({"group_sizes": [3, 8]}, "3 does not divide the largest, 8"),
    "one block": ({"pool": {"reference": 64, "replicate": 8}}, "pool.replicate = 8"),
    "pool too small": ({"pool": {"reference": 2, "replicate": 32}}, "pool.reference = 2"),
    "missing model": (
        {"model": {"path": "no/such/folder"}},
        "no/such/folder: no such folder",
    ),
    "not a model": ({"model": {"path": "tests"}}, "tests: no config.json in it"),
    "key like a type": ({"list": 1}, "unknown key list; known: "),
    "long value": ({"seed": "x" * 5000}, "xxx ... xxx"),
    "width": ({"interval": {"width": 0}}, "interval.width = 0"),
    "device": ({"model": {"path": "x", "device": "cuda:٣"}}, "model.device = 'cuda:٣'"),
    "memory": ({"model": {"memory": "9" * 99 + "GB"}}, "model.memory = '999"),
    "unknown reward": (
        {"reward": "intger"},
        "reward = intger: no such reward; did you mean",
    ),
    "bad reward module": ({"reward": "nowhere:f"}, "cannot import nowhere"),
    "unknown device": ({"model": {"path": "x", "device": "tpu"}}, "model.device = 'tpu'"),
    "no parameter": ({"parameters": ["no_such"]}, "'no_such' matches no parameter"),
    "temperature": ({"sampling": {"temperature": 0}}, "sampling.temperature = 0"),
    "missing prompts": ({"prompts": {"source": "none.jsonl"}}, "none.jsonl: no such file"),
    "long prompt": (
        {"sampling": {"max_new_tokens": 64}},
        "exceed the model's context of 64",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_probe(case, write_probe, tmp_path, refused):
    changes, message = BAD[case]
    values = yaml.safe_load(write_probe().read_text())
    if "model" in changes and "device" not in changes["model"]:
        changes = {"model": {**values["model"], **changes["model"]}}
    path = write_probe(**changes)
    assert message in refused("run", path, "--out", tmp_path / "out")


@pytest.mark.parametrize("name", ["two\nlines", "a\x1b[1m", "not\udcffutf8"], ids=ascii)
def test_a_probe_s_name_that_would_break_a_line(name, write_probe, tmp_path, refused):
    path = write_probe(name)
    assert ".yaml: the file's name holds" in refused("run", path, "--out", tmp_path / "out")


BAD_PROMPTS = {
    "broken line": (
        '{"id": 1, "problem": "1", "answer": 1}\n{"id": 2,\n',
        "line 2: not valid",
    ),
    "empty answer": (
        '{"id": 1, "problem": "1", "answer": " "}\n',
        "line 1: answer is missing",
    ),
    "nothing": ("\n", "has no prompts"),
    "not a number": (
        '{"id": "q", "problem": "1", "answer": "one"}\n',
        "failed on prompt q",
    ),
}


@pytest.mark.parametrize("case", BAD_PROMPTS)
def test_bad_prompts(case, write_probe, tmp_path, refused):
    text, message = BAD_PROMPTS[case]
    (tmp_path / "prompts.jsonl").write_text(text)
    assert message in refused("run", write_probe(), "--out", tmp_path / "out")


def test_unwritable_folder(write_probe, tmp_path, refused):
    (tmp_path / "file").write_text("in the way")
    said = refused("run", write_probe(), "--out", tmp_path / "file")
    assert "is a file; name a folder" in said


def test_full_disk(write_probe, tmp_path, refused, monkeypatch):
    """What was finished before the disk was full is still there."""
    path, out = write_probe(), tmp_path / "out"
    whole, written = Path.replace, []

    def replace(self, target):
        if Path(target).suffix == ".npz":
            written.append(target)
            if len(written) > 2:
                raise OSError(28, "No space left on device")
        return whole(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", replace)
        assert "No space left on device" in refused("run", path, "--out", out)
    assert len(list((out / "small/shards").glob("*.npz"))) == 2


def test_two_probes_of_one_name_do_not_share_a_folder(write_probe, tmp_path, refused):
    """The second would take the place of the first."""
    first, other = write_probe(), tmp_path / "other/small.yaml"
    other.parent.mkdir()
    shutil.copy(first, other)
    for command in ("run", "plan"):
        message = refused(command, first, other, "--out", tmp_path / "out", "--fresh")
        assert f"{first} and {other}: both results would lie in small" in message
    assert not (tmp_path / "out").exists()


def test_a_run_that_never_began_leaves_the_folder_free(write_probe, tmp_path, refused):
    path, out = write_probe(), tmp_path / "out"
    assert "cuda" in refused("run", path, "--set", "model.device=cuda:99", "--out", out)
    assert not (out / "small").exists()
