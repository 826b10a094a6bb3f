"""A checkpoint to be changed."""

import shutil

import pytest


@pytest.fixture
def copy(tmp_path, checkpoint):
    """A copy of the checkpoint, to be spoilt."""
    return shutil.copytree(checkpoint, tmp_path / "copy")
