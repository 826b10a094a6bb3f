"""What a trainer logs of its live model."""

from types import SimpleNamespace

import numpy as np
import pytest

from mse_lab.mse.intervals import Estimate
from mse_lab.report.callback_log import log_numbers, zero_variance


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


def test_costs_are_those_of_the_budget_and_of_the_best_size():
    """G = 4 costs 3 at the budget, as much as the best of the curve."""
    one = Estimate(3.0, 2.0, np.inf)
    row = SimpleNamespace(mse=one, cost=one, zero_variance=one)
    advice = SimpleNamespace(
        row={4: row}.get, best=one, noise_scale=one, curves={"grpo": (one,)}
    )
    advice.regime = SimpleNamespace(rho=one)
    found = log_numbers(advice, sampled([np.ones(4)]), 4, 8)
    assert (found["mse/cost_at_G"], found["mse/relative_error"]) == (1.0, 9 / 8)
