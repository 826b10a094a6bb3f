"""Pools of anybody, without a model."""

import numpy as np
import pytest

from mse_lab.results.files import write_arrays
from simulated import make_design


@pytest.fixture(scope="session")
def arrays():
    rng = np.random.default_rng(0)
    found = vars(make_design(rng, prompts=12).draw(rng, 256, 4, 16))
    return {name: array for name, array in found.items() if not name.startswith("kind_")}


@pytest.fixture(scope="module")
def pools_file(arrays, tmp_path_factory):
    path = tmp_path_factory.mktemp("pools") / "mine.npz"
    write_arrays(path, arrays)
    return path
