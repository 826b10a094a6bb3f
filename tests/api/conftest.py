"""Pools of anybody, without a model."""

import numpy as np
import pytest

from simulated import make_design


@pytest.fixture(scope="session")
def arrays():
    rng = np.random.default_rng(0)
    found = vars(make_design(rng, prompts=12).draw(rng, 256, 4, 16))
    return {name: array for name, array in found.items() if not name.startswith("kind_")}
