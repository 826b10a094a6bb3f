"""Stopping: the sequence keeps its level at all looks; what is told at the end holds."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from mse_lab.formatting import with_interval
from mse_lab.measurement.looks import looks
from mse_lab.mse import verdict
from mse_lab.mse.budget import Population
from mse_lab.mse.intervals import Statistic
from mse_lab.mse.regret import COMPARED, SIZES, recommend
from mse_lab.mse.samples import Samples
from mse_lab.mse.stopping import (
    UNSEEN,
    _Costs,
    rarest_seen,
    sequence_bounds,
    sequence_radius,
)
from mse_lab.mse.verdict import Question, decide
from populations import KnownPopulation, choose, population

LEVEL = 0.95
COUNTS = sorted({look.prompts for look in looks(406, 6496)})


def drawn(prompts, seed=0, completions=16):
    rng = np.random.default_rng(seed)
    design = population(np.random.default_rng(1))
    index = rng.integers(0, design.prompts, prompts)
    return [(one,) for one in choose(design, index).sample(rng, completions)]


def test_half_of_a_set_is_half_of_the_way():
    """Without noise of completions, n of 2 n prompts bound like 2 n of infinitely many."""
    apart_P3 = np.random.default_rng(0).normal(size=(12, 3)) * [0.3, 3, 2]
    apart_P3 -= apart_P3.mean(0)
    costs = _Costs(np.array([1.0, 30, 40]), apart_P3, 0.0, np.zeros((3, 3)), 0)
    factors_3K = np.array([[2.0, 4, 8], [1, 1, 1], [1, 1 / 3, 1 / 7]])
    found = costs._replace(share=0.5).ratio_bounds(factors_3K, 0.95)
    np.testing.assert_allclose(found, costs.ratio_bounds(factors_3K, 0.95, more=2))
    assert np.isfinite(found).all()
    assert (found < costs.ratio_bounds(factors_3K, 0.95)).sum() == 6


def share_outside(values):
    """How often a mean of zero leaves the sequence, and twice its error, at any look."""
    sequence, plain = np.zeros((2, len(values)), dtype=bool)
    for look in COUNTS:
        mean, spread = values[:, :look].mean(1), values[:, :look].std(1, ddof=1)
        sequence |= abs(mean) > sequence_radius(look, LEVEL) * spread
        plain |= abs(mean) > 2 * spread / math.sqrt(look)
    return sequence.mean(), plain.mean()


def test_a_mean_is_in_the_sequence_at_all_looks_together():
    """In 95% of 2,000 runs of normal numbers; plain intervals at the same looks fail.

    Of log-normal ones with a standard deviation of 0.8 in 91%, where looks begin at 24: it
    holds for large numbers, which `benchmarks/levels.py` finds these to be.
    """
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((2000, COUNTS[-1]))
    sequence, plain = share_outside(normal)
    # Beyond 6.5% lies three times a standard error.
    assert sequence < 0.065
    assert plain > 0.12
    skewed, _ = share_outside(np.exp(0.8 * normal) - math.exp(0.32))
    assert skewed < 0.11


def largest_ratio(values, aparts, size):
    """By search: the largest q for which the sequence holds 0 for cost(G) - q cost(H)."""
    ratios, worst = np.linspace(1, 3, 20001), 1.0
    radius = sequence_radius(len(aparts), LEVEL)
    costs = {
        one: (mean @ values, aparts @ mean)
        for one in COMPARED
        for mean in [np.array([one, 1, 1 / (one - 1)])]
    }
    value, apart = costs[size]
    for other, apart_other in costs.values():
        spread = np.cov(apart, apart_other)
        variance = spread[0, 0] - 2 * ratios * spread[0, 1] + ratios**2 * spread[1, 1]
        inside = (value - ratios * other) ** 2 <= radius**2 * variance
        worst = max(worst, ratios[inside].max(initial=1.0))
    return worst


def test_bounds_are_where_the_sequence_of_a_ratio_ends():
    """Also where three more prompts are like the one that carries most of c1."""
    known = Population(Samples.of(drawn(60)))
    names = ("c1", "c2", "c3")
    found = [known.statistic(lambda one, name=name: getattr(one, name)) for name in names]
    values = np.array([one.value for one in found])
    parts = np.stack([one.groups["prompts"][0] + one.value for one in found], axis=-1)
    assert values[0] > 0
    heaviest = parts[np.argmax(parts[:, 0])]
    more = np.concatenate([parts, [heaviest] * UNSEEN])
    seen = {size: largest_ratio(values, parts - values, size) for size in (2, 4, 16)}
    unseen = {size: largest_ratio(more.mean(0), more - more.mean(0), size) for size in seen}
    bounds = sequence_bounds(known, LEVEL)
    for size in seen:
        worst = max(seen[size], unseen[size])
        assert bounds[size] == pytest.approx(worst - 1, abs=2e-4)
    # Where c1 is larger, larger groups cost more, and smaller ones less.
    assert seen[2] > unseen[2] > 1
    assert unseen[16] > seen[16] > 1


def test_a_kind_as_rare_as_said_is_seen_in_95_percent_of_draws():
    """Of a finished run's twice as many are expected."""
    for prompts in (24, 48, 100, 406):
        assert rarest_seen(prompts, looked=False) == rarest_seen(prompts // 2)
        missed = (1 - 1 / rarest_seen(prompts)) ** prompts
        assert 0.03 < missed < 0.05
        assert (1 - 1 / (1.1 * rarest_seen(prompts))) ** prompts > 0.05


class Certain(Population):
    """c1 = -0.1, c2 = c3 = 2, and hardly any spread."""

    def __init__(self):
        self.__dict__["values"] = {"c1": -0.1, "c2": 2.0, "c3": 2.0}

    def contributions(self, figure):
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


GRPO = Question("grpo", 4)


def test_it_recommends_the_smallest_size_that_is_shown():
    """At any regret that is asked for; and goes on where no size's bound is as small."""
    prompts = drawn(200)
    bounds = sequence_bounds(Population(Samples.of(prompts)), LEVEL)
    for regret, least in ((0.05, 4), (0.5, 2)):
        shown = [size for size, bound in bounds.items() if bound <= regret]
        found = decide(prompts, GRPO._replace(tolerance=regret), width=0.0)
        assert found.stop == "regret"
        assert found.choice.size == min({*shown} & {*SIZES}) == least
    none = GRPO._replace(tolerance=0.75 * min(bounds.values()))
    assert decide(prompts, none, width=0.0).stop is None
    shown = [size for size, bound in bounds.items() if bound <= 0.05]
    assert decide(prompts, GRPO).choice.near_best == (min(shown), max(shown))


UNTOLD = GRPO._replace(tolerance=0.0)  # No size is shown to be the best.


def test_it_stops_for_the_width():
    _, low, high = Population(Samples.of(drawn(60))).best_group_size(LEVEL)
    width = math.log((high - 1) / (low - 1)) / 2
    for most, stop in ((1.001 * width, "width"), (0.999 * width, None)):
        assert decide(drawn(60), UNTOLD, width=most).stop == stop


def test_it_stops_where_as_many_prompts_as_needed_carry_it_and_not_before(monkeypatch):
    assert decide(drawn(200), GRPO).stop
    all_right = GRPO._replace(tolerance=100.0)
    assert decide(drawn(9), all_right, width=100.0).stop is None
    for seed in range(5):
        prompts = drawn(200, seed)
        carriers = Population(Samples.of(prompts)).effective_prompts
        for least, stops in ((carriers, True), (np.nextafter(carriers, math.inf), False)):
            monkeypatch.setattr(verdict, "LEAST_CARRIERS", least)
            for question, width in ((GRPO, 0.0), (UNTOLD, 100.0)):
                found = decide(prompts, question, width=width)
                assert bool(found.stop) == stops
                assert stops or found.ruling.verdict == "cannot tell"


class Uncertain(KnownPopulation):
    """Known constants, of which nothing is shown."""

    def contributions(self, figure):
        parts = 1e9 * np.random.default_rng(0).standard_normal((1, 50))
        return Statistic(figure(self.constants).item(), {"prompts": parts}, {})


def test_where_nothing_is_shown_it_is_the_smallest_power_within_the_regret():
    """By brute force; another share of the regret would give another size."""
    rng, regret, others = np.random.default_rng(0), 0.05, set()
    for _ in range(100):
        c1, c2, c3 = np.exp(rng.uniform([-6, -2, 0], [0, 1, 3]))
        cost = {size: c1 * size + c2 + c3 / (size - 1) for size in COMPARED}

        def smallest(share, cost=cost):
            least = (1 + share * regret) * min(cost.values())
            near = [size for size in COMPARED if cost[size] <= least]
            return next((size for size in near if size in SIZES), near[0])

        known = Uncertain(c1, c2, c3)
        found = recommend(known, sequence_bounds(known, LEVEL), regret)
        assert found.size == smallest(1)
        others |= {share for share in (1 / 2, 2) if smallest(share) != found.size}
    assert others == {1 / 2, 2}


def test_the_range_of_the_best_size_narrows_from_look_to_look():
    """The few sizes that are shown to be near the best would grow in number instead."""
    few, many = (decide(drawn(count), GRPO) for count in (12, 200))
    assert few.choice.near_best[0] == few.choice.near_best[1]
    assert few.best.low < many.best.low < many.best.high < few.best.high
    assert many.words == "keep, G = 4"
    assert few.words == f"best group size {with_interval(few.best)}"
