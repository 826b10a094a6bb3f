"""Stopping: the sequence keeps its level at all looks; what is told at the end holds."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.stopping import CASES, LOOKS, made, regrets_of, tell
from mse_lab.formatting import with_interval
from mse_lab.mse import stopping
from mse_lab.mse.budget import Population, mse_times_budget
from mse_lab.mse.intervals import Statistic
from mse_lab.mse.regret import COMPARED
from mse_lab.mse.samples import Samples
from mse_lab.mse.stopping import decide, sequence_bounds, sequence_radius
from populations import choose, population

LEVEL = 0.95


def drawn(prompts, seed=0, completions=16):
    rng = np.random.default_rng(seed)
    design = population(np.random.default_rng(1))
    index = rng.integers(0, design.prompts, prompts)
    return [(one,) for one in choose(design, index).sample(rng, completions)]


def share_outside(values):
    """How often a mean of zero leaves the sequence, and twice its error, at any look."""
    sequence, plain = np.zeros((2, len(values)), dtype=bool)
    for look in LOOKS:
        mean, spread = values[:, :look].mean(1), values[:, :look].std(1, ddof=1)
        sequence |= abs(mean) > sequence_radius(look, LEVEL) * spread
        plain |= abs(mean) > 2 * spread / math.sqrt(look)
    return sequence.mean(), plain.mean()


def test_a_mean_is_in_the_sequence_at_all_looks_together():
    """In 95% of 2,000 runs of normal numbers; plain intervals at the same looks fail.

    Of log-normal ones with a standard deviation of 0.8 in 91%, where looks begin at 24: it
    holds for large numbers, which `benchmarks/stopping.py` finds these to be.
    """
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((2000, LOOKS[-1]))
    sequence, plain = share_outside(normal)
    # Beyond 6.5% lies three times a standard error.
    assert sequence < 0.065
    assert plain > 0.12
    skewed, _ = share_outside(np.exp(0.8 * normal) - math.exp(0.32))
    assert skewed < 0.11


def test_bounds_are_where_the_sequence_of_a_ratio_ends():
    """By search: the largest q for which it holds 0 for cost(G) - q cost(H), for any H."""
    known = Population(Samples.of(drawn(60)))
    bounds = sequence_bounds(known, LEVEL)
    radius, ratios = sequence_radius(60, LEVEL), np.linspace(1, 3, 40001)

    def parts(size):
        found = known.statistic(lambda one: mse_times_budget("grpo", one, size))
        return found.value, found.groups["prompts"][0]

    costs = {size: parts(size) for size in COMPARED}
    assert known.constants.c1[0] > 0
    for size in (4, 11, 16):
        value, apart = costs[size]
        worst = 1.0
        for other, apart_other in costs.values():
            spread = np.cov(apart, apart_other)
            variance = spread[0, 0] - 2 * ratios * spread[0, 1] + ratios**2 * spread[1, 1]
            inside = (value - ratios * other) ** 2 <= radius**2 * variance
            worst = max(worst, ratios[inside].max(initial=1.0))
        assert bounds[size] == pytest.approx(worst - 1, abs=1e-4)


class Certain(Population):
    """c1 = -0.1, c2 = c3 = 2, and hardly any spread."""

    def __init__(self):
        self.__dict__["values"] = {"c1": -0.1, "c2": 2.0, "c3": 2.0}

    def statistic(self, figure):
        names = SimpleNamespace(**self.values)
        parts = 1e-9 * np.random.default_rng(0).standard_normal((1, 50))
        return Statistic(figure(names), {"prompts": parts}, {})


def test_c1_counts_as_zero_where_its_estimate_is_negative():
    """Then 256 is the best of all: 2 + 2/31 over 2 + 2/255 at 32."""
    bounds = sequence_bounds(Certain(), LEVEL)
    assert bounds[32] == pytest.approx((2 + 2 / 31) / (2 + 2 / 255) - 1, abs=1e-6)
    assert bounds[256] == pytest.approx(0, abs=1e-6)


def test_no_bound_is_known_where_a_cost_is_not_told_from_zero():
    rng = np.random.default_rng(0)
    design = population(np.random.default_rng(1))
    few = [(one,) for one in choose(design, [0, 1, 2, 3]).sample(rng, 8)]
    bounds = sequence_bounds(Population(Samples.of(few)), LEVEL)
    assert set(bounds.values()) == {math.inf}


def test_it_stops_for_the_regret_of_the_smallest_size_that_is_shown():
    found = decide(drawn(200))
    bounds = sequence_bounds(Population(Samples.of(drawn(200))), LEVEL)
    assert found.stop == "regret"
    shown = [size for size, bound in bounds.items() if bound <= 0.05]
    powers = [size for size in shown if size & (size - 1) == 0]
    assert found.choice.size == min(powers)
    low, high = found.choice.near_best
    assert (low, high) == (min(shown), max(shown))


def test_it_stops_for_the_width_and_says_what_a_narrower_one_takes():
    """Four times the completions for half the width."""
    wide = decide(drawn(60), regret=0.0, width=1.0)
    _, low, high = Population(Samples.of(drawn(60))).best_group_size(LEVEL)
    assert wide.width == pytest.approx(math.log((high - 1) / (low - 1)) / 2)
    assert wide.stop == "width"
    narrow = decide(drawn(60), regret=0.0, width=wide.width / 2)
    assert (narrow.stop, narrow.wanted) == (None, pytest.approx(4 * 60 * 16, abs=1))
    for enough in (wide.width, 2 * wide.width):
        assert decide(drawn(60), regret=0.0, width=enough).wanted == 60 * 16


def test_it_never_stops_on_few_carriers(monkeypatch):
    assert decide(drawn(200)).stop
    assert decide(drawn(9), regret=100.0, width=100.0).stop is None
    monkeypatch.setattr(stopping, "LEAST_CARRIERS", 201)
    assert decide(drawn(200)).stop is None


def test_the_range_of_the_best_size_narrows_from_look_to_look():
    """The few sizes that are shown to be near the best would grow in number instead."""
    few, many = decide(drawn(12)), decide(drawn(200))
    assert few.choice.near_best[0] == few.choice.near_best[1]
    assert few.best.low < many.best.low < many.best.high < few.best.high
    assert many.words == f"best group size {with_interval(many.best)}"


@pytest.mark.parametrize("name", ["V 0.1 to 0.9", "G = 4 costs 6% more"])
def test_what_is_told_at_the_end_is_true(name):
    """A small form of `benchmarks/stopping.py`: of 40 runs at most three are false."""
    case, design, rng = CASES[name], made(name), np.random.default_rng(1)
    regrets = regrets_of(design)
    told = [tell(case, design, regrets, rng, LOOKS[:5]) for _ in range(40)]
    assert sum(one.regret > one.decision.choice.regret for one in told) <= 3
    assert sum(one.range_regret > one.decision.choice.near_regret for one in told) <= 3
    assert sum(one.holds["best"] for one in told) >= 34
    assert {one.decision.stop for one in told} <= {"regret", "width", None}
    assert sum(one.decision.stop == "regret" for one in told) >= 10
