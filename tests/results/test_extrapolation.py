"""Extrapolation: costs by the prompts measured, widths as those of the run's intervals."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mse_lab.mse.replicates import Key
from mse_lab.results.analysis import Analysis
from mse_lab.results.extrapolation import (
    LEAST_FACTOR,
    UNKNOWN_FACTOR,
    Costs,
    Plan,
    expect_widths,
    extrapolate,
)
from simulated import Design, make_design

NAMES, SIZES, LEVEL = ("vanilla", "grpo", "oracle"), (2, 8, 32), 0.95
PROMPTS = 40
DESIGN = make_design(np.random.default_rng(0), PROMPTS)


def taking(seconds):
    return Costs(seconds, 0, 0, 0, 10 * seconds, 0)


def test_prompts_left_cost_the_mean_without_the_longest():
    costs, _ = extrapolate([100, *[10] * 9], {0: taking(50), 1: taking(1), 2: taking(3)})
    assert costs.seconds == pytest.approx(50 + 9 * 2)
    assert costs.tokens == pytest.approx(10 * (50 + 9 * 2))
    assert extrapolate([4, 9, 2], {1: taking(6)})[0].seconds == pytest.approx(18)


@pytest.mark.parametrize(
    ("count", "measured", "factor"),
    [
        (9, [9, 1, 1], UNKNOWN_FACTOR),
        (9, [9, 1, 1, 1], LEAST_FACTOR),
        (2, [1, 8], LEAST_FACTOR),
    ],
)
def test_few_prompts_do_not_give_their_spread(count, measured, factor):
    costs = {index: taking(one) for index, one in enumerate(measured)}
    assert extrapolate([9, *[5] * (count - 1)], costs)[1] == factor


def test_the_factor_by_hand():
    """Of 10 prompts five are left, of 3 s each: 36 s in all; s^2 of 1, 2, 3, 6 is 14/3."""
    costs = {index: taking(one) for index, one in enumerate([9, 1, 2, 3, 6])}
    error = math.sqrt(14 / 3) * 5 * math.sqrt(1 / 5 + 1 / 4)
    factor = extrapolate([9, *[5] * 9], costs)[1]
    assert factor == pytest.approx(1 + stats.t.ppf(0.975, 3) * error / 36)


@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_sums_are_within_their_factor(scale):
    """Of 60 prompts whose times are lognormal; 95% of 400, four binomial errors of 1.1%.

    Where they are wide the mean of four is skewed, and covers some less.
    """
    rng, held = np.random.default_rng(0), 0
    for _ in range(400):
        times = np.exp(scale * rng.standard_normal(60))
        measured = {index: taking(float(times[index])) for index in range(5)}
        costs, factor = extrapolate([9, *[5] * 59], measured)
        held += costs.seconds / factor <= times.sum() <= costs.seconds * factor
    assert held / 400 >= (0.95 if scale < 1 else 0.85) - 0.044


def test_a_run_takes_no_less_than_is_spent():
    plan = object.__new__(Plan)
    for spent, least in (5.0, 15.0), (25.0, 25.0):
        vars(plan).update(seconds={"draw": 30.0}, factor=2.0, seconds_measured=spent)
        assert plan.range == (least, 60.0)


def analyse(pools):
    described = pd.DataFrame({"prompt": range(pools.prompts)})
    settings = (NAMES, SIZES, LEVEL, 200, 0, described, "closed-form", "like-these")
    return Analysis("run", pools, *settings)


def widths_of(pools, prompts):
    widths = expect_widths(analyse(pools), prompts)
    return np.array([[widths[Key(name, size)] for size in SIZES] for name in NAMES])


def test_all_prompts_measured_give_the_run_s_own_intervals():
    """Symmetric in the logarithm: exp(half-width) is their factor."""
    pools = DESIGN.draw(np.random.default_rng(1), 256, 4, 32)
    ends = analyse(pools).mse.set_index(["estimator", "group_size"])
    expected = np.log(ends["mse_high"] / ends["mse"]).to_numpy().reshape(3, 3)
    np.testing.assert_allclose(widths_of(pools, PROMPTS), expected, rtol=1e-9)


def test_more_prompts_are_predicted():
    """From half the prompts: within a tenth on average."""
    rng = np.random.default_rng(2)
    places = np.tile(np.arange(PROMPTS), 2)
    twice = Design(*(getattr(DESIGN, name)[places] for name in vars(DESIGN)))
    pairs = [
        (
            widths_of(DESIGN.draw(rng, 128, 4, 32), 2 * PROMPTS),
            widths_of(twice.draw(rng, 128, 4, 32), 2 * PROMPTS),
        )
        for _ in range(5)
    ]
    ratio = np.exp(np.mean([np.log(one / other) for one, other in pairs], axis=0))
    np.testing.assert_allclose(ratio, 1, atol=0.1)
