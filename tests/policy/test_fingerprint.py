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
    return shutil.copytree(checkpoint, tmp_path / "copy")


def test_it_is_of_the_content_alone(folder, checkpoint):
    before = fingerprint(folder)
    assert before == fingerprint(checkpoint)
    os.utime(folder / "model.safetensors", (0, 0))
    (folder / "README.md").write_text("a model")
    (folder / "trainer_state.json").write_text("{}")
    assert fingerprint(folder) == before


def test_every_tensor_is_seen(folder):
    """Sampled too: any tensor that is trained changes it."""
    weights = load_file(folder / "model.safetensors")
    seen = {fingerprint(folder)}
    for name, tensor in weights.items():
        changed = {**weights, name: tensor + np.float32(0.01)}
        save_file(changed, folder / "model.safetensors", {"format": "pt"})
        seen.add(fingerprint(folder))
    assert len(seen) == 1 + len(weights)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_every_decisive_file_is_seen(folder, name):
    before = fingerprint(folder)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content + b" ")
    longer = fingerprint(folder)
    (folder / name).rename(folder / f"other-{name}")
    assert len({before, longer, fingerprint(folder)}) == 3


def with_header(text):
    return len(text).to_bytes(8, "little") + text + bytes(100)


BROKEN = {
    "no length": b"\xff" * 100,
    "cut": b"\x00",
    "list": with_header(b"[1]"),
    "nested": with_header(b"[" * 50000),
    "no offsets": with_header(b'{"a": 1}'),
    "negative": with_header(b'{"a": {"data_offsets": [-99, 1]}}'),
    "beyond": with_header(b'{"a": {"data_offsets": [0, 99999999999999999999]}}'),
    "fractions": with_header(b'{"a": {"data_offsets": [0.5, 1.5]}}'),
    "not text": with_header(b"\xff\xfe"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_has_one_too(folder, name):
    before = fingerprint(folder)
    (folder / "model.safetensors").write_bytes(BROKEN[name])
    assert fingerprint(folder) != before


def test_a_large_file_is_sampled_from_end_to_end():
    pieces = list(module._pieces(10, 10 + 10**9))
    assert pieces[0][0] == 10
    assert pieces[-1][1] == 10 + 10**9
    assert len(pieces) == module.PIECES
    assert all(end - start == module.PIECE_BYTES for start, end in pieces)
