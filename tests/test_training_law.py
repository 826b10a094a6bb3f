"""The law of trainings: found where it holds, and judged on seeds that did not choose."""

import numpy as np
import pandas as pd
import pytest

from probes.studies.training_law import compare_two, fit_power, judge_arm


def lawful(curvature, seeds=8, noise=0.0, step_sizes=(0.25, 0.5, 1.0, 2.0)):
    """Rows of J after one step: x - curvature x^2 / 2 at step size x, and noise."""
    draws = np.random.default_rng(0)
    grid = [(size, seed) for size in step_sizes for seed in range(seeds)]
    gains = [x - curvature * x**2 / 2 + noise * draws.standard_normal() for x, _ in grid]
    table = pd.DataFrame(grid, columns=["step_size", "seed"])
    return table.assign(step_0=0.25, step_1=0.25 + np.array(gains))


def test_the_law_is_found_where_it_holds():
    """1 + E twice as large: half of the gain, at half of the step size."""
    columns = ["step_0", "step_1"]
    base, own = (judge_arm(lawful(one), columns) for one in (1.0, 2.0))
    assert (base.chosen, own.chosen) == ((1.0, 1.0), (0.5, 0.5))
    found = compare_two(own, base, np.array([0.0, 1.0]))
    assert found["gain_ratio"] == pytest.approx(0.5)
    assert found["step_size_ratio"] == pytest.approx(0.5)
    assert found["steps_ratio"] == pytest.approx(2.0)
    assert not found["at_edge"]
    assert judge_arm(lawful(0.1), columns).at_edge


def test_the_power_of_a_law_is_found():
    """Gains 1/x^2 that seeds scale alike; with noise the interval holds -2 in 95%."""
    errors, draws = np.array([1.5, 2.0, 4.0, 8.0]), np.random.default_rng(5)
    alike = draws.uniform(0.5, 1.5, (8, 1)) / errors**2
    np.testing.assert_allclose(fit_power(alike, errors), [-2, -2, -2])
    noisy = [errors**-2.0 * draws.normal(1, 0.3, (8, 4)) for _ in range(300)]
    held = [low < -2 < high for _, low, high in (fit_power(one, errors) for one in noisy)]
    assert 0.9 < np.mean(held) < 0.99
    assert np.isnan(fit_power(alike - 1, errors)).all()


def test_a_seed_does_not_choose_its_own_step_size():
    """Of pure noise the best of many gains is large; a judged one is not."""
    table = lawful(0.0, 400, 1.0, np.full(1, 1e-9)).drop(columns="step_size")
    parts = [
        table.iloc[at::20].assign(step_size=float(at), seed=range(20)) for at in range(20)
    ]
    judged = judge_arm(pd.concat(parts), ["step_0", "step_1"])
    assert abs(judged.gains.mean()) < 4 / 20**0.5
    best = pd.concat(parts).groupby("step_size")["step_1"].mean().max() - 0.25
    assert best > 0.3
