"""The prediction: integrals along the pilots, and its error by leaving pilots out."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mse_lab.errors import InputError
from mse_lab.studies.training.predicted_group_size import Predicted, predict, predict_at

STEPS = [0, 10, 40]


def pilots(c1=1.0, c3=16.0, noise=0.0, count=4, seed=0):
    """c1 falls from twice its mean to none of it by step 40, on a straight line."""
    rng, rows = np.random.default_rng(seed), []
    for pilot in range(count):
        factor = math.exp(noise * rng.standard_normal())
        rows += [
            {"group_size": 4, "seed": pilot, "step": step, "c2": 3.0, "c3": c3,
             "c1": factor * c1 * 2 * (1 - step / 40)}
            for step in STEPS
        ]  # fmt: skip
    return pd.DataFrame(rows)


def test_constants_are_means_over_all_steps():
    """c1 on a line: mean 1 up to step 40, (2 + 1.5)/2 up to 10; c3 = 16, G* = 1 + 4."""
    found = predict_at(pilots(), 40)
    assert found.constants == pytest.approx((1, 3, 16))
    assert found.best == pytest.approx(5)
    assert predict_at(pilots(), 10).best == pytest.approx(1 + math.sqrt(16 / 1.75))
    sizes = np.linspace(2, 20, 181)
    assert sizes[np.argmin(sizes + 3 + 16 / (sizes - 1))] == pytest.approx(found.best)


def test_the_interval_covers():
    """log-normal c1 of four pilots: log(G*-1) is off by half of its mean's error."""
    inside = 0
    for seed in range(60):
        low, high = predict_at(pilots(noise=0.3, seed=seed), 40).interval(0.95)[1:]
        # E of the factor is exp(0.045).
        inside += low <= 1 + 4 * math.exp(-0.0225) <= high
    # Chance leaves fewer than 51 of 60 inside once in 1,000.
    assert 51 <= inside <= 60


def test_pilots_of_one_seed_are_one_trial():
    """Twice the group sizes on the same uniforms say nothing more."""
    table = pilots(noise=0.3)
    both = pd.concat([table, table.assign(group_size=32)])
    one, two = predict_at(table, 40), predict_at(both, 40)
    assert (two.log_ratio, two.error) == pytest.approx((one.log_ratio, one.error))
    assert two.degrees == one.degrees == 3


def test_it_is_read_back_as_it_was_written():
    table = pilots(noise=0.1)
    found = predict(table)
    assert list(found) == [10, 40]
    assert Predicted.model_validate_json(found[40].model_dump_json()) == found[40]
    assert found[40] == predict_at(table, 40)


def test_no_prediction_without_a_spread_of_prompts():
    with pytest.raises(InputError, match=r"c1 = .* raise prediction.reference"):
        predict(pilots(c1=-1))


def _predicted(log_ratio):
    constants = (1.0, 10.0, 16.0)
    return Predicted(
        step=100, log_ratio=log_ratio, error=0.1, degrees=7, constants=constants
    )


def test_the_interval_is_students_in_the_logarithm():
    found = _predicted(math.log(4.0)).interval(0.95)
    factor = math.exp(0.1 * stats.t.ppf(0.975, 7))
    assert found == pytest.approx((5, 1 + 4 / factor, 1 + 4 * factor))
