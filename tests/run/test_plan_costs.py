"""Costs: foretold by length, and how far they may be off."""

import numpy as np
import pytest

from mse_lab.run.plan_costs import LEAST, UNLIKE, Plan, Row, extrapolate, spread


def test_what_is_measured_is_kept():
    lengths = [5, 9, 5, 7]
    found = extrapolate(lengths, {0: [1.0], 2: [3.0], 1: [10.0]})[:, 0]
    # Those of 5 tokens take 2 on average, that of 9 takes 10.
    assert found.tolist() == [1.0, 10.0, 3.0, 6.0]


def test_equal_lengths_cost_the_mean():
    assert extrapolate([4, 4, 4], {0: [1.0], 1: [3.0]})[:, 0].tolist() == [1.0, 3.0, 2.0]


def test_one_prompt_tells_all():
    assert extrapolate([4, 9, 2], {1: [6.0]})[:, 0].tolist() == [6.0, 6.0, 6.0]


def test_the_longest_alone_does_not_raise_the_others():
    found = extrapolate([100, *[10] * 9], {0: [50.0], 1: [1.0], 2: [1.0]})
    assert found.sum() == pytest.approx(50 + 9)


def test_few_prompts_do_not_tell_their_spread():
    assert spread([9, 5, 5, 5, 5], {0: 9.0, 1: 1.0, 2: 1.0}) == UNLIKE
    assert spread([9, 5, 5, 5, 5], {0: 9.0, 1: 1.0, 2: 1.0, 3: 1.0}) == LEAST
    assert spread([5, 5], {0: 1.0, 1: 8.0}) == LEAST


@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_sums_are_within_their_spread(scale):
    """Of 60 prompts whose times are lognormal; 95% of 400, four binomial errors of 1.1%.

    Where they are wide the mean of four is skewed, and covers some less.
    """
    rng, held = np.random.default_rng(0), 0
    lengths = [9, *[5] * 59]
    for _ in range(400):
        times = np.exp(scale * rng.standard_normal(60))
        measured = {index: float(times[index]) for index in range(5)}
        found = extrapolate(
            lengths, {index: [one] for index, one in measured.items()}
        ).sum()
        factor = spread(lengths, measured)
        held += found / factor <= times.sum() <= found * factor
    assert held / 400 >= (0.95 if scale < 1 else 0.85) - 0.044


def test_a_run_takes_no_less_than_is_spent():
    whole = Row("total", 60, 300.0, None, 30.0)
    for spent, least in (5.0, 15.0), (25.0, 25.0):
        plan = Plan("small", [], total=whole, factor=2.0, seconds_measured=spent)
        assert plan.range == (least, 60.0)
