"""What tests of results share: a finished run that may be spoilt."""

import shutil

import pytest

from mse_lab.results.folder import ResultsFolder


@pytest.fixture
def copy(project, tmp_path):
    """A copy of the finished run, to be damaged."""
    return ResultsFolder(
        shutil.copytree(project / "results/small", tmp_path / "results/small")
    )
