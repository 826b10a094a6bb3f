"""What a trainer logs of its live model."""

from types import SimpleNamespace

import numpy as np
import pytest

from mse_lab.report.trainer_log import zero_variance


def sampled(rewards, *, binary=True):
    return SimpleNamespace(rewards=rewards, binary=binary)


def used(size, known=None):
    return SimpleNamespace(group_size=size, zero_variance=known)


def test_larger_groups_than_were_drawn_go_by_a_beta_law():
    """Of values spread evenly every count of 16 is as likely, and of G groups 2/(G+1)."""
    run = sampled([np.repeat([1.0, 0.0], [count, 16 - count]) for count in range(17)])
    assert zero_variance(used(32), run) == pytest.approx(2 / 33, rel=1e-3)
    assert np.isnan(zero_variance(used(65), run))
    assert np.isnan(zero_variance(used(32), sampled(run.rewards, binary=False)))
    assert zero_variance(used(8, SimpleNamespace(value=0.5)), run) == 0.5
