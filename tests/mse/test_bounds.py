"""Bounds of ratios of costs: by search, by hand, and at all looks together."""

import math
from itertools import pairwise

import numpy as np
import pytest

from mse_lab.mse.bounds import (
    UNSEEN,
    Priced,
    _Seen,
    bound_by_intervals,
    bound_by_sequence,
    rarest_seen,
    sequence_radius,
)
from mse_lab.mse.intervals import Statistic
from mse_lab.mse.progress import ratio_of_costs
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.mse.rule import COMPARED, Question, find_ratios, price_sizes, rule
from mse_lab.mse.samples import Samples
from populations import POPULATION, KnownTable, choose, population, scaled

LEVEL = 0.95
COUNTS = (48, 72, 108, 162, 243, 364)


def drawn(prompts, seed=0, completions=16):
    rng = np.random.default_rng(seed)
    design = population(np.random.default_rng(1))
    index = rng.integers(0, design.prompts, prompts)
    return PromptTable.of_samples(
        Samples.of(choose(design, index).sample(rng, completions))
    )


def grpo(table, sizes=COMPARED, completions=0.0):
    _, priced = price_sizes(table, Question("grpo", sizes[0], completions))
    return priced._replace(costs={size: priced.costs[size] for size in sizes})


def regrets(table, bound, completions=0.0):
    upper_KK = bound(grpo(table, completions=completions))
    return dict(zip(COMPARED, (upper_KK.max(1) - 1).tolist(), strict=True))


def test_half_of_a_set_is_half_of_the_way():
    """Without noise of completions, n of 2 n prompts bound like 2 n of infinitely many."""
    apart_PM = np.random.default_rng(0).normal(size=(12, 3)) * [0.3, 3, 2]
    apart_PM -= apart_PM.mean(0)
    seen = _Seen(
        np.array([1.0, 30, 40]), apart_PM, (0, -np.inf, -np.inf), 0.0, np.zeros((3, 3))
    )
    factors_MK = np.array([[2.0, 4, 8], [1, 1, 1], [1, 1 / 3, 1 / 7]])
    found = seen._replace(share=0.5).ratio_bounds(factors_MK, LEVEL)
    np.testing.assert_allclose(found, seen.ratio_bounds(factors_MK, LEVEL, more=2))
    assert np.isfinite(found).all()
    assert (found < seen.ratio_bounds(factors_MK, LEVEL)).sum() == 6


def share_outside(values):
    """How often a mean of zero leaves the sequence, and twice its error, at any look."""
    sequence, plain = np.zeros((2, len(values)), dtype=bool)
    for look in COUNTS:
        mean, spread = values[:, :look].mean(1), values[:, :look].std(1, ddof=1)
        sequence |= abs(mean) > sequence_radius(look, LEVEL) * spread
        plain |= abs(mean) > 2 * spread / math.sqrt(look)
    return sequence.mean(), plain.mean()


def test_a_mean_is_in_the_sequence_at_all_looks_together():
    """In 95% of 2,000 runs of normal numbers; plain intervals at the same looks fail."""
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((2000, COUNTS[-1]))
    sequence, plain = share_outside(normal)
    # Beyond 6.5% lies three times a standard error.
    assert sequence < 0.065
    assert plain > 0.12
    skewed, _ = share_outside(np.exp(0.8 * normal) - math.exp(0.32))
    assert skewed < 0.11


def largest_ratio(values, aparts, size, completions):
    """By search: the largest q for which the sequence holds 0 for cost(G) - q cost(H)."""
    ratios, worst = np.linspace(1, 3, 20001), 1.0
    radius = sequence_radius(len(aparts), LEVEL)
    costs = {
        one: (mean @ values, aparts @ mean)
        for one in COMPARED
        for mean in [np.array([one, 1, 1 / (one - 1), completions])]
    }
    value, apart = costs[size]
    for other, apart_other in costs.values():
        spread = np.cov(apart, apart_other)
        variance = spread[0, 0] - 2 * ratios * spread[0, 1] + ratios**2 * spread[1, 1]
        inside = (value - ratios * other) ** 2 <= radius**2 * variance
        worst = max(worst, ratios[inside].max(initial=1.0))
    return worst


@pytest.mark.parametrize("completions", [0, 64])
def test_bounds_are_where_the_sequence_of_a_ratio_ends(completions):
    """Also where three more prompts are like the one that carries most of c1."""
    table = drawn(60, seed=2)
    names = ("c1", "c2", "c3", "gradient2")
    found = [table.statistic(lambda one, name=name: getattr(one, name)) for name in names]
    values = np.array([one.value for one in found])
    parts = np.stack([one.groups["prompts"][0] + one.value for one in found], axis=-1)
    assert values[0] > 0
    heaviest = parts[np.argmax(parts[:, 0])]
    # Not the one that carries most of c3.
    assert np.argmax(parts[:, 0]) != np.argmax(parts[:, 2])
    more = np.concatenate([parts, [heaviest] * UNSEEN])
    sizes = (2, 4, 16)
    seen = {
        size: largest_ratio(values, parts - values, size, completions) for size in sizes
    }
    unseen = {
        size: largest_ratio(more.mean(0), more - more.mean(0), size, completions)
        for size in sizes
    }
    bounds = regrets(table, bound_by_sequence(table, LEVEL), completions)
    limits = regrets(table, bound_by_sequence(table, LEVEL))
    for size in sizes:
        worst = max(seen[size], unseen[size]) - 1
        assert bounds[size] == pytest.approx(min(worst, limits[size]), abs=2e-4)
    # Where c1 is larger, larger groups cost more, and smaller ones less.
    assert seen[2] > unseen[2] > 1
    assert unseen[16] > seen[16] > 1


@pytest.mark.parametrize("make", [bound_by_sequence, bound_by_intervals])
def test_bounds_fall_with_the_batch_and_stay_above_one(make):
    table = drawn(60)
    found = [regrets(table, make(table, LEVEL), some) for some in (0, 16, 256, 4096)]
    for smaller, larger in pairwise(found):
        for size in COMPARED:
            assert 0 <= larger[size] <= smaller[size] + 1e-9
    assert found[-1][256] < found[0][256] / 4


@pytest.mark.parametrize("make", [bound_by_sequence, bound_by_intervals])
def test_as_many_prompts_as_that_narrow_them(make):
    table = drawn(60)
    few, many = (make(table, LEVEL, prompts)(grpo(table)) for prompts in (None, 1000))
    assert (many <= few + 1e-12).all()
    assert many[0, -1] < few[0, -1]


def test_an_interval_bounds_by_the_end_of_the_paired_ratio(known):
    table = PromptTable.of_pools(known[1])
    priced = grpo(table)
    upper_KK = bound_by_intervals(table, LEVEL)(priced)
    for one, size in enumerate((2, 8, 64)):
        at = COMPARED.index(size)
        for other, cost in enumerate(priced.costs.values()):
            if other != at:
                ratio = ratio_of_costs(table, priced.costs[size], cost, LEVEL)
                assert upper_KK[at, other] == pytest.approx(ratio.high), one


def test_a_kind_as_rare_as_said_is_seen_in_95_percent_of_draws():
    """Of a finished run's twice as many are expected."""
    for prompts in (24, 48, 100, 406):
        assert rarest_seen(prompts, looked=False) == rarest_seen(prompts // 2)
        missed = (1 - 1 / rarest_seen(prompts)) ** prompts
        assert 0.03 < missed < 0.05
        assert (1 - 1 / (1.1 * rarest_seen(prompts))) ** prompts > 0.05


class Certain(KnownTable):
    """Known constants, and hardly any spread."""

    def contributions(self, figure):
        parts = 1e-9 * np.random.default_rng(0).standard_normal((1, 60))
        return Statistic(figure(self.constants).item(), {"prompts": parts}, {})


def test_c1_counts_as_zero_where_its_estimate_is_negative():
    """Then 256 is the best of all: 2 + 2/31 over 2 + 2/255 at 32."""
    table = Certain(-0.1, 2.0, 2.0)
    bounds = regrets(table, bound_by_sequence(table, LEVEL))
    assert bounds[32] == pytest.approx((2 + 2 / 31) / (2 + 2 / 255) - 1, abs=1e-6)
    assert bounds[256] == pytest.approx(0, abs=1e-6)


def test_no_bound_is_known_where_a_cost_is_not_told_from_zero():
    rng = np.random.default_rng(0)
    design = population(np.random.default_rng(1))
    few = Samples.of(choose(design, [0, 1, 2, 3]).sample(rng, 8))
    table = PromptTable.of_samples(few)
    assert set(regrets(table, bound_by_sequence(table, LEVEL)).values()) == {math.inf}


def test_what_is_said_of_a_run_is_true():
    """20 runs of 12 prompts unlike one another, seeds fixed: one may be wrong.

    At a level of nearly zero it is false far more often: the negative control.
    """
    rng = np.random.default_rng(0)
    design = population(rng)
    design = scaled(design, np.exp(0.8 * rng.standard_normal(POPULATION)))
    gradient_PD, moments = design.gradient_PD, design.moments()
    mean = gradient_PD.mean(0)
    between = ((gradient_PD - mean) ** 2).sum(-1).mean()
    traces = moments.trace_oracle.mean(), moments.zeta.mean()
    truth = KnownTable(between, *traces, gradient2=mean @ mean)
    cost = {size: one.item() for size, one in grpo(truth).costs.items()}
    regret = {size: one / min(cost.values()) - 1 for size, one in cost.items()}
    false = dict.fromkeys((LEVEL, 1e-6), 0)
    question = Question("grpo", 8)
    for _ in range(20):
        index = rng.integers(0, design.prompts, 12)
        table = PromptTable.of_pools(choose(design, index).draw(rng, 256, 2, 16))
        for level in false:
            bound = bound_by_intervals(table, level)
            found = rule(find_ratios(price_sizes(table, question), bound), question)
            false[level] += regret[8] > found.at_most + 1e-9
    assert false[LEVEL] <= 1
    assert false[1e-6] >= 3


def test_costs_of_any_loss_are_bounded_by_their_own_spread():
    """As GRPO-type's are, which its constants give."""
    table = drawn(400)
    priced = grpo(table)
    by_constants = bound_by_sequence(table, LEVEL)(priced)
    by_costs = bound_by_sequence(table, LEVEL)(priced._replace(linear=False))
    np.testing.assert_allclose(by_costs, by_constants, rtol=1e-6)
    assert isinstance(priced, Priced)
