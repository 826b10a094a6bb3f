"""What a metric's measurement says: signs, ends of intervals, coverage of G*."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from enumerated import random_enumerated
from exact_forms import BEST, Prompt, draw_forms, exact_forms
from mse_lab.mse.metric import MetricPools, MetricPopulation
from mse_lab.mse.metric_forms import Forms

HALF = 3


def make_prompts(count):
    rng = np.random.default_rng(3)
    return [Prompt.of(random_enumerated(rng)) for _ in range(count)]


def forms_of(c1, c3, count=6):
    """Prompts all alike, with these constants and c2 = 1 in a fixed metric."""
    ones = np.ones((1, count))
    noise = (1 + c3 / (HALF - 1)) / HALF * ones
    zeros = np.zeros_like(ones)
    return Forms(c1 * ones, noise, c3 * ones, zeros, zeros, zeros)


@pytest.mark.parametrize(
    ("c1", "c3", "best", "chosen"),
    [(1.0, 9.0, 4.0, 4), (1.0, -1.0, 1.0, 2), (-5.0, 1.0, math.inf, 32)],
)
def test_signs_of_the_constants_decide_what_is_best(c1, c3, best, chosen):
    """Without c1 the costs are 1 + 1/31 at 32 and 1 + 1/255, the least."""
    population = MetricPopulation(forms_of(c1, c3), HALF)
    assert population.constants == pytest.approx((c1, 1.0, c3))
    assert population.best_group_size(0.95).value == pytest.approx(best)
    assert population.choose() == chosen


def test_nothing_is_known_where_all_noise_helps():
    population = MetricPopulation(forms_of(-1.0, -1.0), HALF)
    assert math.isnan(population.best_group_size(0.95).value)
    assert MetricPopulation(forms_of(1.0, -5.0), HALF).choose() is None  # 2 + 1 - 5 at 2


@pytest.mark.parametrize(
    ("c1", "c3", "low", "high"),
    [
        ((2, 2, 2, 2), (8, 8, 8, 8), 3.0, 3.0),  # no spread
        ((2, -1, 0, 3), (8, 8, 8, 8), None, math.inf),  # c1 not clear
        ((2, 2, 2, 2), (8, -8, 1, 2), 1.0, None),  # c3 not clear
        ((2, -1, 0, 3), (8, -8, 1, 2), 1.0, math.inf),
        ((2, 2, 2, 2), (-8, -8, -8, -8), 1.0, 1.0),
    ],
)
def test_an_unclear_constant_opens_an_end(c1, c3, low, high):
    zeros = np.zeros((1, 4))
    parts = [np.array([one], dtype=float) for one in (c1, c3)]
    forms = Forms(parts[0], zeros, parts[1], zeros, zeros, zeros)
    best = MetricPopulation(forms, HALF).best_group_size(0.95)
    assert best.low <= best.value <= best.high
    for end, expected in ((best.low, low), (best.high, high)):
        if expected is None:
            assert 1 < end < math.inf
        else:
            assert end == pytest.approx(expected)


def test_at_both_ends_the_slope_is_just_significant():
    """By hand: the slope c1 - r c3 of forms in one metric is a mean over prompts."""
    halves = np.repeat([0.0, 2.0], 15)  # Half of the prompts carry all.
    one, three = np.random.default_rng(2).permuted([[halves], [halves]], axis=-1)
    zeros = np.zeros((1, 30))
    population = MetricPopulation(Forms(one, zeros, three, zeros, zeros, zeros), HALF)
    assert population.effective_prompts == pytest.approx(15)
    reach = stats.t.ppf(0.975, 15)
    _, low, high = population.best_group_size(0.95)
    for end, sign in ((low, -1), (high, 1)):
        slopes = (one - three / (end - 1) ** 2)[0]
        error = slopes.std(ddof=1) / np.sqrt(30)
        assert slopes.mean() / error == pytest.approx(sign * reach, rel=0.02)


def test_half_of_the_noise_helps_where_half_of_the_prompts_curve_upwards():
    zeros = np.zeros((1, 4))
    noise = np.array([[1.0, -1.0, 1.0, -1.0]])
    forms = Forms(zeros, noise, zeros, zeros, zeros, zeros)
    assert MetricPopulation(forms, HALF).shares(8) == (0.5, 0.5)


def test_a_prompts_own_curvature_has_no_part_in_what_helps():
    """By hand at G = 4: c2/4 + c3/12, c2 = 3 noise - c3/2, in the curvature of others."""
    noise, pairs = np.ones((4, 4)), np.full((4, 4), 2.0)
    noise[:, 3] = -1  # c2 = 2 of three prompts and -4 of the fourth, which helps by 5/6.
    own = 100 * np.eye(4)
    zeros = np.zeros((4, 4))
    forms = Forms(zeros, noise + own, pairs - own, zeros, zeros, zeros)
    helps = (5 / 6) / (3 * 2 / 3 + 5 / 6)
    assert MetricPopulation(forms, HALF).shares(4) == pytest.approx((1 - helps, helps))


@pytest.mark.parametrize("carried", ["gradients_KP", "pairs_KP"])
@pytest.mark.parametrize("as_curvature", [False, True])
def test_one_prompt_that_carries_a_constant_in_either_role_is_told(carried, as_curvature):
    """One of six, of the noise or of the curvature, of c1 or of c3."""
    ones = np.ones((6, 6))
    heavy = ones.copy()
    heavy[(0,) if as_curvature else (slice(None), 0)] = 1e9
    parts = dict.fromkeys(Forms.__dataclass_fields__, ones)
    assert MetricPopulation(Forms(**parts), HALF).effective_prompts == pytest.approx(6)
    population = MetricPopulation(Forms(**parts | {carried: heavy}), HALF)
    assert population.effective_prompts == pytest.approx(1)


def test_pools_are_read_back_and_refused_where_damaged():
    prompts = make_prompts(4)
    pools = MetricPools(
        settings="{}",
        prompts_P=np.arange(4),
        trained=4,
        half=HALF,
        curved=exact_forms(prompts, HALF),
        first=exact_forms(prompts, HALF, np.eye(3)),
    )
    arrays = pools.as_arrays()
    back = MetricPools.from_arrays(arrays)
    assert back.felt.constants == pools.felt.constants
    assert back.first_order.constants == pools.first_order.constants
    assert MetricPools.from_arrays(arrays | {"half": np.array(2)}).half == 2
    few = MetricPools("{}", np.arange(3), 3, HALF, pools.curved, pools.first).as_arrays()
    for damaged in (few, arrays | {"half": np.array(1)}):
        with pytest.raises(ValueError, match="fewer than four"):
            MetricPools.from_arrays(damaged)
    with pytest.raises(ValueError, match="curved_pairs_KP"):
        MetricPools.from_arrays(arrays | {"curved_pairs_KP": np.ones((4, 3))})
    infinite = replace(pools.first, pairs_KP=np.full((1, 4), np.inf))
    with pytest.raises(ValueError, match="first_pairs_KP"):
        MetricPools.from_arrays(replace(pools, first=infinite).as_arrays())


@pytest.mark.parametrize("spread", [1.0, 2.0])
def test_the_best_size_and_the_ratio_of_costs_are_covered(spread):
    """200 samples of 40 prompts whose curvatures and noises differ, seed fixed.

    Nominal 95%; a level of 90% or more is not rejected (false alarm 1 in 1000).
    """
    rng = np.random.default_rng(11)
    ratio = (16 + 1 + 9 / 15) / (4 + 1 + 9 / 3)
    inside = held = 0
    for _ in range(200):
        population = MetricPopulation(draw_forms(rng, 40, HALF, spread), HALF)
        _, low, high = population.best_group_size(0.95)
        inside += not (low > BEST or high < BEST)
        _, low, high = population.ratio(16, 4, 0.95)
        held += not (low > ratio or high < ratio)
    assert min(inside, held) >= stats.binom.ppf(0.001, 200, 0.9)
