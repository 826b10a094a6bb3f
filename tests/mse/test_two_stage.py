"""A set of prompts: what two stages of drawing leave unknown, against simulated truths."""

import math
from math import comb
from operator import attrgetter

import numpy as np
import pytest

from mse.test_bounds import regrets
from mse_lab.mse.bounds import bound_ratios, fewest_seen
from mse_lab.mse.samples import Samples
from mse_lab.mse.two_stage import half_by_half, halves_of_samples, noises_of
from simulated import choose, population, table_of
from truths import Truth

LEVEL, SET = 0.95, 24


@pytest.fixture(scope="module")
def design():
    """Make a set of prompts."""
    return choose(population(np.random.default_rng(1)), np.arange(SET))


def drawn(design, rng, prompts, blocks=2):
    """Sample some prompts of the set, so many blocks of 8 completions of each."""
    some = choose(design, rng.permutation(design.prompts)[:prompts])
    return Samples.of(zip(*[some.sample(rng, 8) for _ in range(blocks)], strict=True))


def test_the_constants_of_a_set_by_hand(design):
    """||mean g||^2 has the prompts' own squares in it, and c1 divides by P."""
    samples = drawn(design, np.random.default_rng(0), SET)
    known, larger = table_of(samples, size=SET), table_of(samples)
    products = samples.gradient_products_PP
    assert known.samples.gradient2[0] == pytest.approx(products.mean())
    assert known.samples.c1[0] == pytest.approx(np.diag(products).mean() - products.mean())
    assert known.samples.c1[0] == pytest.approx((1 - 1 / SET) * larger.samples.c1[0])
    samples = drawn(design, np.random.default_rng(0), 12)
    half, products = table_of(samples, size=SET), samples.gradient_products_PP
    own, all_pairs = np.diag(products).mean(), products.sum() - np.trace(products)
    expected = own / SET + (1 - 1 / SET) * all_pairs / (12 * 11)
    assert half.samples.gradient2[0] == pytest.approx(expected)


def test_the_noise_of_completions_by_hand(design):
    """Of a mean of three blocks: two of them are one half, the third is the other."""
    samples = drawn(design, np.random.default_rng(0), 5, blocks=3)
    halves = half_by_half(
        halves_of_samples(samples),
        samples.moments,
        np.zeros(5),
        lambda mean, _: mean(attrgetter("value")),
    )
    rewards_PN = np.array(samples.rewards)
    alone, both = rewards_PN[:, 8:16].mean(1), rewards_PN[:, [*range(8), *range(16, 24)]]
    by_hand = math.sqrt(2 / 9) * (both.mean(1) - alone) / 5
    [noise_P] = noises_of(lambda values: values, halves)
    np.testing.assert_allclose(noise_P, by_hand)
    # Of what is not linear: all prompts as they are, but for the half of one.
    whole_P = rewards_PN.mean(1)
    first_P, second_P = (
        (whole_P.mean() + (half_P - whole_P) / 5) ** 2 for half_P in (both.mean(1), alone)
    )
    [squared_P] = noises_of(np.square, halves)
    np.testing.assert_allclose(squared_P, math.sqrt(2 / 9) * (first_P - second_P))
    alone = Samples.of(each[0] for each in samples.blocks)
    assert table_of(alone, size=5).share == 0


@pytest.mark.parametrize("prompts", [SET, SET // 2])
def test_the_variance_has_two_stages(design, prompts):
    """(1 - n/P) s^2 / n and n/P of the noise; with further numbers s^2 / n alone."""
    known = table_of(drawn(design, np.random.default_rng(0), prompts), size=SET)
    figure, share = attrgetter("c3"), prompts / SET
    whole, [noise_P] = known.contributions(figure), noises_of(figure, known.half_samples)
    expected = (1 - share) * whole.error**2 + share * (noise_P**2).sum()
    assert known.statistic(figure).error ** 2 == pytest.approx(expected)
    assert 0 < (noise_P**2).sum() < whole.error**2
    more = known.statistic(known.samples.c3)
    assert more.error == pytest.approx(whole.error)


def bounds_of(samples, size):
    table = table_of(samples, size=size)
    return regrets(table, bound_ratios(table, LEVEL, looked=True))


def covered(draw, truths, runs=40):
    """Count the intervals that hold, by number; last those of c3 for a larger set."""
    held = dict.fromkeys([*truths, "larger"], 0)
    for _ in range(runs):
        measured = draw()
        known = table_of(measured, size=SET)
        found = {name: known.constant(name, LEVEL) for name in ("c1", "c2", "c3")}
        found["G*"] = known.best_group_size(LEVEL)
        for name, truth in truths.items():
            held[name] += found[name].low <= truth <= found[name].high
        narrow = found["c3"].high - found["c3"].low
        low, high = table_of(measured).constant("c3", LEVEL)[1:]
        held["larger"] += narrow < 0.9 * (high - low)
    return held


@pytest.mark.parametrize("how", ["all", "half of them", "by a finished run"])
def test_intervals_hold_for_the_set(design, how):
    """Of 40 at least 33 each: at 95% fewer are as rare as 1 in 2,000."""
    rng, truth = np.random.default_rng(3), Truth(design)
    truths = {name: getattr(truth.constants, name).item() for name in ("c1", "c2", "c3")}
    truths["G*"] = truth.best_size
    draw = {
        "all": lambda: drawn(design, rng, SET, blocks=4),
        "half of them": lambda: drawn(design, rng, SET // 2),
        "by a finished run": lambda: design.draw(rng, 128, 2, 16),
    }[how]
    held = covered(draw, truths)
    assert min(held[name] for name in truths) >= 33, held
    if how != "half of them":
        assert held["larger"] >= 33


def test_bounds_of_a_set_are_true_and_narrow(design):
    """At n = P and 64 completions, where those of a larger population are wider.

    Each is false in 1% of runs: of 60 more than three are as rare as 1 in 300.
    """
    cost = {size: Truth(design).cost(size) for size in (2, 3, 4, 6, 8, 16)}
    rng, false = np.random.default_rng(5), 0
    for _ in range(10):
        samples = drawn(design, rng, SET, blocks=8)
        bounds, larger = (bounds_of(samples, size) for size in (SET, math.inf))
        for size, own in cost.items():
            false += own / min(cost.values()) - 1 > bounds[size]
            assert bounds[size] < larger[size]
        assert bounds[16] < 0.95 * larger[16]
    assert false <= 3


def test_no_more_prompts_are_feared_than_are_left(design):
    """With one prompt left the guard adds one like the heaviest, with none none."""
    samples = drawn(design, np.random.default_rng(0), 20)
    bounds = [bounds_of(samples, size)[16] for size in (20, 21, 22, 23)]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[1] < bounds[3]


@pytest.mark.parametrize(("measured", "size"), [(18, 36), (30, 36), (48, 400)])
def test_the_fewest_prompts_of_a_kind_that_are_seen(measured, size):
    """Of k of P prompts n drawn ones miss all in C(P-k, n) / C(P, n) of draws."""
    fewest = fewest_seen(measured, size)
    missed = [comb(size - k, measured) / comb(size, measured) for k in (fewest - 1, fewest)]
    assert missed[0] > 0.05 >= missed[1]
