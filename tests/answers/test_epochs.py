"""Epochs: the best sizes of a training, between prompts drawn anew and none that counts."""

import math

import pytest

from mse_lab.answers.epochs import best_sizes_in_epochs
from mse_lab.mse.intervals import Estimate

CONSTANTS = {"c1": 1.0, "c2": 10.0, "c3": 16.0}
BEST = Estimate(5.0, 4.0, math.inf)


def test_long_steps_are_as_prompts_drawn_anew_and_short_ones_take_none_away():
    """G* = 1 + sqrt 16; each prompt comes 10 times at G = 4, in steps of 1024 / 7473."""
    long, most, short = best_sizes_in_epochs(BEST, CONSTANTS, 4, 1024 / 7473, 10)
    assert [row.way for row in (long, most, short)] == [1, 0.9, 0]
    assert long.best == pytest.approx((5, 4, math.inf), rel=2e-3)
    assert short.best == pytest.approx((40, 40, math.inf), rel=2e-3)
    # (G - 1) tanh(G/k) = 4, k = 2 x 40 / 2.303
    assert (most.best.value - 1) * math.tanh(most.best.value / 34.74) == pytest.approx(
        4, rel=5e-3
    )
    # Of prompts drawn anew 4 + 10 + 16/3 = 19.3, 8 + 10 + 16/7 = 20.3, 2 + 10 + 16 = 28.
    assert long.recommended == 4
    # 10 + 16/(G-1): 10.52 at 32 is the least, 11.07 at 16; 64 has 24 more.
    assert short.recommended == 32


def test_one_epoch_leaves_the_size_where_it_is():
    """More completions of each prompt are prompts that never come."""
    rows = best_sizes_in_epochs(Estimate(5.0, 4.0, 6.0), CONSTANTS, 4, 0.1, 1)
    for row in rows:
        assert row.best.value == pytest.approx(5, abs=0.4)
        assert row.recommended in (4, 8)
