"""The choice of a group size, and the bound of its regret, against known populations."""

import numpy as np
import pytest

from designs import scaled
from mse_lab.arrays import divide
from mse_lab.mse.budget import Population, mse_times_budget
from mse_lab.mse.regret import COMPARED, SIZES, choose_size, recommend, regret_bounds
from populations import POPULATION, KnownPopulation, choose, population

LEVEL = 0.95


@pytest.mark.parametrize(
    ("constants", "size", "near_best"),
    [
        # 1 G + 2 + 9/(G-1): 9.5, 9, 9.25, 9.8 at G = 3 to 6, so 5% is 9.45.
        ((1, 2, 9), 4, (4, 5)),
        # Flat: 2.327 at 16, so 5% is 2.443; 2.437 at 8, 2.401 at 32, 2.448 at 38.
        ((0.01, 2.0, 2.5), 8, (8, 32)),
        # No spread between prompts: 2 + 2/(G-1), least 2.008 at 256; 5% is 2.108.
        ((-0.1, 2, 2), 32, (23, 256)),
    ],
)
def test_hand_arithmetic(constants, size, near_best):
    """Where constants are known exactly the regret is the exact one."""
    known = KnownPopulation(*constants)
    choice = recommend(known, regret_bounds(known, LEVEL))
    cost = mse_times_budget("grpo", known.constants, np.array(COMPARED))
    assert choice.size == size
    assert choice.near_best == near_best
    assert choice.near_regret == 0.05
    regret = dict(zip(COMPARED, cost / cost.min() - 1, strict=True))
    assert regret_bounds(known, LEVEL) == pytest.approx(regret)
    assert choice.regret == pytest.approx(regret[size])
    # Where half as much again is tolerated it is the smallest of more sizes.
    more = recommend(known, regret_bounds(known, LEVEL), 0.5)
    assert more.size == min(one for one in SIZES if regret[one] <= 0.5) < size


def test_every_size_up_to_eight_and_every_power_of_two_is_compared():
    assert {*range(2, 9), *SIZES} <= {*COMPARED}
    assert max(np.divide(COMPARED[4:], COMPARED[3:-1])) < 1.3


@pytest.mark.parametrize("size", [2, 8, 64])
def test_the_bound_is_the_largest_end_of_the_paired_ratios(known, size):
    """Of the cost over that of any other size, by the route that prices sizes."""
    drawn = Population(known[1])

    def ratio_to(other):
        def figure(one):
            return divide(*(mse_times_budget("grpo", one, at) for at in (size, other)))

        return drawn.estimate_positive(figure, LEVEL)

    ends = [ratio_to(other).high for other in COMPARED]
    assert regret_bounds(drawn, LEVEL)[size] == pytest.approx(max(ends) - 1)


def test_sizes_between_the_ends_are_as_near(known):
    drawn = Population(known[1])
    bounds = regret_bounds(drawn, LEVEL)
    choice = recommend(drawn, bounds)
    low, high = choice.near_best
    inside = {size for size, bound in bounds.items() if bound <= choice.near_regret}
    assert inside == {size for size in COMPARED if low <= size <= high}


def test_what_is_said_is_true():
    """20 runs of 12 prompts unlike one another, seeds fixed: one may be wrong.

    Told as the estimate has it, that some sizes
    cost at most 5% more is false far more often: the negative control.
    """
    rng = np.random.default_rng(0)
    design = population(rng)
    design = scaled(design, np.exp(0.8 * rng.standard_normal(POPULATION)))
    gradient_PD, moments = design.gradient_PD, design.moments()
    between = ((gradient_PD - gradient_PD.mean(0)) ** 2).sum(-1).mean()
    known = KnownPopulation(between, moments.trace_oracle.mean(), moments.zeta.mean())
    cost = mse_times_budget("grpo", known.constants, np.array(COMPARED))
    regret = dict(zip(COMPARED, cost / cost.min() - 1, strict=True))
    false = dict.fromkeys((LEVEL, 1e-6), 0)
    for _ in range(20):
        index = rng.integers(0, design.prompts, 12)
        drawn = Population(choose(design, index).draw(rng, 256, 2, 16))
        for level in false:
            choice = recommend(drawn, regret_bounds(drawn, level))
            near = all(regret[size] <= choice.near_regret for size in choice.near_best)
            false[level] += not (near and regret[choice.size] <= choice.regret + 1e-9)
    assert false[LEVEL] <= 1
    assert false[1e-6] >= 3


def test_where_little_is_known_no_other_size_is_called_near():
    bounds = {size: 1.3 + abs(size - 4) for size in COMPARED} | {5: 0.9}
    assert recommend(KnownPopulation(1, 2, 9), bounds) == (4, 1.3, (4, 4), 1.3)


@pytest.mark.parametrize(
    ("bounds", "more", "size"),
    [
        ({}, {}, 8),  # By the estimates alone.
        ({8: 0.06, 11: 0.01, 16: 0.04}, {}, 16),  # Shown comes before smaller.
        ({11: 0.01}, {}, 8),  # A power of two is as good, though nothing shows it.
        ({8: 0.05, 16: 0.04}, {}, 8),
        ({11: 0.01}, {"settable": (*SIZES, 11)}, 11),  # The present size, shown.
        ({4: 0.01}, {}, 8),  # A bound below the estimate is none.
        ({11: 0.01}, {"tolerance": 0.02}, 11),  # Powers of two are not as good.
        ({8: 0.2}, {"tolerance": 0.3}, 8),
    ],
)
def test_a_size_that_nobody_would_set_is_not_recommended(bounds, more, size):
    """11 is the best; 8 costs 3%, 16 costs 4% and 4 costs 30.1% more."""
    costs = {4: 13.01, 8: 10.3, 11: 10.0, 16: 10.4}
    assert choose_size(costs, bounds, **more) == size
    assert choose_size({2: -1.0, 4: -1.2, 8: -1.19}) == 4
