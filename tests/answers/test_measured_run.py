"""Runs are independent of one another, of one seed, too."""

import numpy as np
import pytest

from claimed_runs import DESIGNS, evidence_of


def test_runs_have_nothing_in_common():
    """Of one seed, too: each has groups and a reference of its own."""
    pools = DESIGNS["fair"].draw(np.random.default_rng(0), 64, 2, 8)
    one, other = (evidence_of(name, pools, (8,)).mse_of("grpo", 8) for name in "ab")
    assert (one - one).error == 0
    assert (one - other).spread.variance == pytest.approx(2 * one.spread.variance)
