"""Bounds of ratios of costs: by search, by hand, and at all looks together."""

import math

import numpy as np
import pytest
from scipy import stats

from mse_lab.mse.bounds import (
    LOOKS,
    UNSEEN,
    Rung,
    _Seen,
    bound_ratios,
    heaviest,
    rarest_seen,
)
from mse_lab.mse.rule import COMPARED_SIZES, Question, price_rungs
from simulated import few_table, known_table

LEVEL = 0.95
COUNTS = (32, 48, 72, 108, 162, 243, 364, 512)


def grpo(table, sizes=COMPARED_SIZES, completions=0.0):
    priced = price_rungs(table, Question("grpo", sizes[0], completions)).grpo
    return priced._replace(costs={Rung(size): priced.costs[Rung(size)] for size in sizes})


def regrets(table, bound, completions=0.0):
    upper_KK = bound(grpo(table, completions=completions))
    return dict(zip(COMPARED_SIZES, (upper_KK.max(1) - 1).tolist(), strict=True))


def test_half_of_a_set_is_half_of_the_way():
    """Without noise of completions, n of 2 n prompts bound like 2 n of infinitely many.

    With as much as prompts are apart, like n of these.
    """
    apart_PM = np.random.default_rng(0).normal(size=(12, 3)) * [0.3, 3, 2]
    apart_PM -= apart_PM.mean(0)
    seen = _Seen(
        np.array([1.0, 30, 40]), apart_PM, (0, -np.inf, -np.inf), 0.0, np.zeros((3, 3))
    )
    factors_MK = np.array([[2.0, 4, 8], [1, 1, 1], [1, 1 / 3, 1 / 7]])
    found = seen._replace(share=0.5).ratio_bounds(factors_MK, 2.0)
    np.testing.assert_allclose(found, seen.ratio_bounds(factors_MK, 2 / math.sqrt(2)))
    assert np.isfinite(found).all()
    whole, noise_MM = seen.ratio_bounds(factors_MK, 2.0), np.cov(apart_PM.T) / 12
    assert (found < whole).sum() == 6
    noisy = seen._replace(share=0.5, noise_MM=noise_MM)
    np.testing.assert_allclose(noisy.ratio_bounds(factors_MK, 2.0), whole)


def test_more_prompts_like_one_count_as_measured():
    """12 of 24 and three more are 15 of 24."""
    apart_PM = np.random.default_rng(0).normal(size=(12, 3))
    seen = _Seen(np.ones(3), apart_PM - apart_PM.mean(0), (0, 0, 0), 0.5, np.eye(3))
    found, whole = seen.with_more(3, 4), np.vstack([seen.apart_PM, [seen.apart_PM[4]] * 3])
    assert found.share == 0.625
    np.testing.assert_allclose(found.values_M, 1 + whole.mean(0))
    np.testing.assert_allclose(found.apart_PM, whole - whole.mean(0))


@pytest.mark.parametrize(("looks", "most", "least"), [(LOOKS, 0.04, 0), (1, 1, 0.12)])
def test_eight_looks_together_are_false_as_seldom_as_one(looks, most, least):
    """In less than 5% of 2,000 runs; a test at its level at each look fails."""
    normal = np.random.default_rng(0).standard_normal((2000, COUNTS[-1]))
    false = np.zeros(2000, dtype=bool)
    for look in COUNTS:
        mean, error = normal[:, :look].mean(1), normal[:, :look].std(1) / math.sqrt(look)
        false |= mean > stats.t(look - 1).isf((1 - LEVEL) / looks) * error
    assert least < false.mean() < most


def largest_ratio(values, aparts, size, completions, reach):
    """By search: the largest q with cost(G) - q cost(H) so many errors from 0."""
    ratios, worst = np.linspace(1, 3, 20001), 1.0
    costs = {
        one: (mean @ values, aparts @ mean)
        for one in COMPARED_SIZES
        for mean in [np.array([one, 1, 1 / (one - 1), completions])]
    }
    value, apart = costs[size]
    for other, apart_other in costs.values():
        spread = np.cov(apart, apart_other) / len(aparts)
        variance = spread[0, 0] - 2 * ratios * spread[0, 1] + ratios**2 * spread[1, 1]
        inside = (value - ratios * other) ** 2 <= reach**2 * variance
        worst = max(worst, ratios[inside].max(initial=1.0))
    return worst


@pytest.mark.parametrize("completions", [0, 64])
def test_bounds_are_where_a_ratio_is_so_many_errors_away(completions):
    """Also, as at one look, where three more are like the one that carries most of c1."""
    table = few_table(60, seed=2)
    names = ("c1", "c2", "c3", "gradient2")
    found = [table.statistic(lambda one, name=name: getattr(one, name)) for name in names]
    values = np.array([one.value for one in found])
    parts = np.stack([one.groups["prompts"][0] + one.value for one in found], axis=-1)
    assert values[0] > 0
    # Not the one that carries most of c3.
    assert heaviest(table) == np.argmax(parts[:, 0]) != np.argmax(parts[:, 2])
    more = np.concatenate([parts, [parts[heaviest(table)]] * UNSEEN])
    sizes, degrees = (2, 4, 16), table.effective_prompts
    assert degrees < 59

    def search(parts, looks):
        """Each size's largest ratio, by some prompts."""
        mean, reach = parts.mean(0), stats.t(degrees).isf((1 - LEVEL) / looks)
        rest = completions, reach
        return {size: largest_ratio(mean, parts - mean, size, *rest) for size in sizes}

    seen, unseen = search(parts, LOOKS), search(more, 1)
    worst = {size: max(seen[size], unseen[size]) for size in sizes}
    # A finished run is looked at once, from both sides, and fears no more prompts.
    once = search(parts, 2)
    for looked, ratios in ((True, worst), (False, once)):
        bound = bound_ratios(table, LEVEL, looked=looked)
        bounds, limits = (regrets(table, bound, some) for some in (completions, 0))
        for size, ratio in ratios.items():
            limit = limits[size] if completions else math.inf
            assert bounds[size] == pytest.approx(min(ratio - 1, limit), abs=2e-4)
    # Where c1 is larger, larger groups cost more, and smaller ones less.
    assert seen[2] > unseen[2] > 1
    assert seen[16] > 1


@pytest.mark.parametrize("fitted", [(), (1, 8)], ids=["sizes", "baselines"])
def test_no_bound_is_above_that_for_small_n(fitted):
    """Where 20 prompts hardly know ||g||^2, which moves every ratio towards 1."""
    table = few_table(20, seed=1)
    bound = bound_ratios(table, LEVEL, looked=True)
    large, small = (
        bound(price_rungs(table, Question("grpo", 4, some, fitted=fitted)).grpo)
        for some in (64, 0)
    )
    assert (large <= np.maximum(small, 1) + 1e-9).all()


@pytest.mark.parametrize("looked", [True, False])
def test_as_many_prompts_as_that_narrow_them(looked):
    table = few_table(60)
    few, as_many, many = (
        bound_ratios(table, LEVEL, looked=looked, prompts=prompts)(grpo(table))
        for prompts in (None, 60, 1000)
    )
    np.testing.assert_array_equal(as_many, few)
    assert (many <= few + 1e-12).all()
    assert many[0, -1] < few[0, -1]


def test_a_kind_as_rare_as_said_is_seen_in_95_percent_of_draws():
    """Of a finished run's twice as many are expected."""
    for prompts in (24, 48, 100, 406):
        assert rarest_seen(prompts, looked=False) == rarest_seen(prompts // 2)
        missed = (1 - 1 / rarest_seen(prompts)) ** prompts
        assert 0.03 < missed < 0.05
        assert (1 - 1 / (1.1 * rarest_seen(prompts))) ** prompts > 0.05


def test_c1_counts_as_zero_where_its_estimate_is_negative():
    """Then 256 is the best of all: 2 + 2/31 over 2 + 2/255 at 32."""
    table = known_table(-0.1, 2.0, 2.0)
    bounds = regrets(table, bound_ratios(table, LEVEL, looked=True))
    assert bounds[32] == pytest.approx((2 + 2 / 31) / (2 + 2 / 255) - 1, abs=1e-6)
    assert bounds[256] == pytest.approx(0, abs=1e-6)


def test_no_bound_is_known_where_a_cost_is_not_told_from_zero():
    table = few_table(4, completions=8)
    found = regrets(table, bound_ratios(table, LEVEL, looked=True))
    assert {*found.values()} == {math.inf}
