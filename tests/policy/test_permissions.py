"""Checkpoints that another user may not read or enter are refused in one line."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from models import write_adapter
from mse_lab.errors import InputError
from mse_lab.policy.fingerprint import identify_model
from mse_lab.probe.probe_files import parse_probe
from policy.test_checkpoint import load

NOBODY = 65534


@pytest.fixture
def copy(checkpoint):
    """A copy of the checkpoint that another user may enter, unlike pytest's folders."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        folder = shutil.copytree(checkpoint, Path(place) / "copy")
        for path in (folder, folder.parent, *folder.iterdir()):
            path.chmod(0o755)
        yield folder
        os.seteuid(os.getuid())


def forbid(path, mode=0o000):
    """Take the right to a path from this process, as another user than root."""
    path.chmod(mode)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)


FORBIDDEN = {
    "folder": (".", 0o000, "Permission denied; give a folder that may be read"),
    "folder to be read only": (".", 0o444, "Permission denied; give a folder"),
    "parent": ("..", 0o000, "Permission denied; give a folder that may be read"),
    "config": ("config.json", 0o000, "config.json"),
    "end tokens": ("generation_config.json", 0o000, "generation_config.json"),
    "tokenizer": ("tokenizer.json", 0o000, "tokenizer.json"),
    "tokenizer settings": ("tokenizer_config.json", 0o000, "tokenizer_config.json"),
    "weights": ("model.safetensors", 0o000, "model.safetensors"),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_may_not_be_read_is_named(copy, name):
    file, mode, expected = FORBIDDEN[name]
    load(copy)  # whatever libraries import later, this user may read
    forbid(copy / file, mode)
    probe = parse_probe({"model": {"path": str(copy)}, "prompts": {"source": "x"}}, "probe")
    for use in (lambda: load(copy), lambda: identify_model(probe.model, copy.parent)):
        with pytest.raises(InputError, match=expected) as refused:
            use()
        assert str(refused.value).startswith(f"model.path = {copy}: ")
        assert "Permission denied" in str(refused.value)


@pytest.mark.parametrize("file", [".", "adapter_config.json", "adapter_model.safetensors"])
def test_an_adapter_that_may_not_be_read_is_named(copy, file):
    adapter = write_adapter(copy, copy / "adapter")
    (adapter / "adapter_model.safetensors").chmod(0o644)
    load(copy, adapter=str(adapter))
    forbid(adapter / file)
    with pytest.raises(InputError, match=r"Permission denied") as refused:
        load(copy, adapter=str(adapter))
    assert str(refused.value).startswith(f"model.adapter = {adapter}: ")
