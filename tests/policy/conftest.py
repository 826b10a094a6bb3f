"""Fixtures: a checkpoint that may be changed, and bases of adapters."""

import shutil

import pytest

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
