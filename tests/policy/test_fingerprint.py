"""A checkpoint's fingerprint: changes with the weights, and with nothing else."""

import os
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mse_lab.policy import fingerprint as module
from mse_lab.policy.fingerprint import fingerprint


@pytest.fixture(params=["whole", "sampled"])
def folder(request, monkeypatch, tmp_path, checkpoint):
    """A copy of the checkpoint, small or so large that it is sampled."""
    if request.param == "sampled":
        monkeypatch.setattr(module, "WHOLE_BYTES", 0)
        monkeypatch.setattr(module, "PIECE_BYTES", 8)
        monkeypatch.setattr(module, "PIECES", 64)
    return shutil.copytree(checkpoint, tmp_path / "copy")


def test_it_is_of_the_content_alone(folder, checkpoint):
    before = fingerprint(folder)
    assert before == fingerprint(checkpoint)
    os.utime(folder / "model.safetensors", (0, 0))
    (folder / "README.md").write_text("a model")
    (folder / "trainer_state.json").write_text("{}")
    assert fingerprint(folder) == before


def test_any_change_of_the_weights_is_seen(folder):
    """Sampled too, as far as it is of more than some numbers."""
    weights = load_file(folder / "model.safetensors")
    seen = {fingerprint(folder)}
    for scale in (1.01, 1.02):
        changed = {name: tensor * np.float32(scale) for name, tensor in weights.items()}
        save_file(changed, folder / "model.safetensors", {"format": "pt"})
        seen.add(fingerprint(folder))
    assert len(seen) == 3


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_every_decisive_file_is_seen(folder, name):
    before = fingerprint(folder)
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    longer = fingerprint(folder)
    (folder / name).rename(folder / f"other-{name}")
    assert len({before, longer, fingerprint(folder)}) == 3


def test_a_large_file_is_sampled_from_end_to_end(tmp_path, monkeypatch):
    """Of 1000 bytes in 10 pieces of 8 every hundredth begins one."""
    for name, value in (("WHOLE_BYTES", 0), ("PIECES", 10), ("PIECE_BYTES", 8)):
        monkeypatch.setattr(module, name, value)
    seen = {}
    for at in (None, 0, 7, 8, 99, 900, 907, 908):
        content = bytearray(1000)
        if at is not None:
            content[at] = 1
        (tmp_path / "model.bin").write_bytes(content)
        seen[at] = fingerprint(tmp_path)
    same = {at for at, found in seen.items() if found == seen[None]}
    assert same == {None, 8, 99, 908}
