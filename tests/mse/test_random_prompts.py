"""Numbers over random prompts: how often their intervals hold the population's."""

import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
from scipy import stats

from simulated import POPULATION, choose, population, sample, scaled, table_of
from truths import Truth

LEVEL, NARROW, TRIALS = 0.95, 0.77, 300


@cache
def covered(prompts, scale):
    """Count the runs whose intervals hold G* and ||g||^2, at the level and at 0.77.

    Each has P prompts, whose scores differ by factors e^(scale N).
    """
    rng = np.random.default_rng(1)
    design = scaled(population(rng), np.exp(scale * rng.standard_normal(POPULATION)))
    truth, counts = Truth(design), Counter()
    truths = {"best": truth.best_size, "gradient2": truth.constants.gradient2.item()}
    for _ in range(TRIALS):
        index = rng.integers(0, design.prompts, prompts)
        run = table_of(choose(design, index).draw(rng, 256, 2, 16))
        for level in (LEVEL, NARROW):
            found = {
                "best": run.best_group_size(level),
                "gradient2": run.estimate(lambda one: one.gradient2, level),
            }
            for name, one in found.items():
                counts[name, level] += one.low <= truths[name] <= one.high
    return counts


def shortfall(count):
    return stats.binomtest(count, TRIALS, LEVEL, alternative="less").pvalue


@pytest.mark.parametrize(("prompts", "scale"), [(60, 0.0), (8, 0.8), (20, 0.8), (60, 0.8)])
def test_coverage_of_the_best_group_size(prompts, scale):
    """300 runs each, prompts alike and unlike; false alarm 1e-3 if the coverage is 0.95.

    With plain percentiles over prompts it was 80 to 93 percent. `benchmarks/coverage.py`
    measures it with more runs.
    """
    count = covered(prompts, scale)["best", LEVEL]
    assert shortfall(count) > 1e-3, count / TRIALS


def test_coverage_of_the_squared_gradient():
    count = covered(60, 0.0)["gradient2", LEVEL]
    assert shortfall(count) > 1e-3, count / TRIALS


@pytest.mark.parametrize("name", ["best", "gradient2"])
def test_a_narrow_interval_fails_the_coverage_test(name):
    """Negative control: a nominal level of 0.77."""
    assert shortfall(covered(60, 0.0)[name, NARROW]) < 1e-6


def test_no_upper_bound_in_nearly_all_runs_without_spread_between_prompts(alike):
    """At most 8 of 60 bounded: false alarm 2e-5, one miss in 40 being on that side.

    Measured: 10 of 400.
    """
    rng = np.random.default_rng(4)
    bounded = 0
    for _ in range(60):
        bounded += math.isfinite(table_of(sample(alike, rng)).best_group_size(0.95).high)
    assert bounded <= 8
