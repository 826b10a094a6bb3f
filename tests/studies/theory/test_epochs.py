"""Epochs: simulated runs settle where the law says, and not where fresh prompts would."""

from dataclasses import replace

import numpy as np
import pytest

from mse_lab.studies.theory import epochs
from mse_lab.studies.theory.bandit import surrounded
from mse_lab.studies.theory.epochs import best_size, judge_epochs, level
from mse_lab.studies.theory.limit import Limit


@pytest.fixture(scope="module")
def many():
    return Limit(surrounded(12, 6, 3, 5))


def test_drawn_anew_the_best_size_is_that_of_the_constants(many):
    """Curvatures of this bandit are nearly alike, so the metric hardly weighs them."""
    assert best_size(many, 24, dealt=False) == pytest.approx(many.best_size, rel=0.1)
    sizes = [best_size(many, budget, dealt=True) for budget in (24, 96)]
    assert best_size(many, 24, dealt=False) < sizes[0] < sizes[1]


def test_all_prompts_in_a_step_leave_no_noise_of_prompts(many):
    """N/G = P: c2 and c3 alone, so of huge groups next to nothing of (c2)/N is left."""
    few, all_in = (level(many, 2, budget, dealt=True) for budget in (12, 24))
    assert all_in < few / 2
    assert np.isfinite(all_in)


def test_runs_settle_where_the_law_says(many, few, monkeypatch):
    monkeypatch.setattr(epochs, "SIZES", (6, 12))
    law, best = judge_epochs(many, replace(few, runs=200))
    assert law.estimate.low < 1.06
    assert law.estimate.high > 0.97
    assert law.control.caught
    assert best.verdict == "fails"
