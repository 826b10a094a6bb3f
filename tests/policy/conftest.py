"""Fixtures: a checkpoint to be changed, bases of adapters, files of completions."""

import json
import shutil

import pytest

import run_mse
from models import random_model


@pytest.fixture
def copy(tmp_path, checkpoint):
    """A copy of the checkpoint, to be spoilt."""
    return shutil.copytree(checkpoint, tmp_path / "copy")


@pytest.fixture(scope="session")
def bases(tmp_path_factory, checkpoint):
    """Checkpoints of three architectures, GPT-2's linear layers stored the other way."""
    folders = {}
    for architecture, tied in (("qwen2", True), ("llama", False), ("gpt2", True)):
        folder = tmp_path_factory.mktemp(architecture)
        random_model(architecture, tied=tied).save_pretrained(folder)
        for path in checkpoint.glob("tokenizer*"):
            shutil.copy(path, folder)
        folders[architecture] = folder
    return folders


@pytest.fixture
def write(tmp_path):
    """Return a function that writes lines, some of their keys left out."""

    def write(lines, without=(), name="drawn.jsonl"):
        path = tmp_path / name
        kept = [
            {key: value for key, value in line.items() if key not in without}
            for line in lines
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in kept))
        return str(path)

    return write


@pytest.fixture
def run(write_probe, tmp_path):
    """Return a function that runs the probe; gives the exit status and the folder."""

    def run(out="out", **changes):
        path = write_probe(**changes)
        return run_mse.main(["run", str(path), "--out", str(tmp_path / out)]), (
            tmp_path / out / "small"
        )

    return run
