"""Baselines: hand values, loops, and the cases without weight."""

import numpy as np
import pytest
from toy import make_groups

from mse_lab.estimators.baselines import (
    best_constant,
    best_constant_loo,
    centred,
    grpo,
    opo,
    opo_loo,
    oracle,
    vanilla,
)

FOUR = [1, 2, 3, 4]
GROUP = make_groups([1, 0, 0, 0], FOUR, FOUR, value=0.25, best_constant=0.5)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (vanilla, [1, 0, 0, 0]),
        (oracle, [3 / 4, -1 / 4, -1 / 4, -1 / 4]),
        (best_constant, [1 / 2, -1 / 2, -1 / 2, -1 / 2]),
        # The others' means: 0 for the right one, 1/3 for each wrong one.
        (grpo, [1, -1 / 3, -1 / 3, -1 / 3]),
        (centred, [3 / 4, -1 / 4, -1 / 4, -1 / 4]),
        # Without the first, no reward; without i, 1 of the remaining 10 - i.
        (best_constant_loo, [1, -1 / 8, -1 / 7, -1 / 6]),
        (opo_loo, [1, -1 / 8, -1 / 7, -1 / 6]),
        # b = 1 * 1 / (1 + 2 + 3 + 4).
        (opo, [9 / 10, -1 / 10, -1 / 10, -1 / 10]),
    ],
)
def test_by_hand(weights, expected):
    np.testing.assert_allclose(weights(GROUP), [[expected]], rtol=1e-14)


def test_equal_lengths_and_norms_give_the_plain_means():
    group = make_groups(np.random.default_rng(0).normal(size=(2, 3, 5)), lengths=7)
    np.testing.assert_allclose(opo(group), centred(group), rtol=1e-12)
    np.testing.assert_allclose(opo_loo(group), grpo(group), rtol=1e-12)
    np.testing.assert_allclose(best_constant_loo(group), grpo(group), rtol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 6])
def test_leaving_out_is_a_loop_over_the_others(size):
    rng = np.random.default_rng(size)
    rewards, norms2 = rng.normal(size=size), rng.uniform(0.1, 9, size=size)
    group = make_groups(rewards, norms2=norms2)
    for weights, by in ((grpo, np.ones(size)), (best_constant_loo, norms2)):
        expected = [
            rewards[i] - np.average(np.delete(rewards, i), weights=np.delete(by, i))
            for i in range(size)
        ]
        np.testing.assert_allclose(weights(group)[0, 0], expected, rtol=1e-12)


@pytest.mark.parametrize("own", [1.0, 1e30])
def test_scores_of_zero_take_the_plain_mean_of_the_others(own):
    # Completion 1 has others without a score: their mean is (1 + 0) / 2. The rest have
    # completion 1 alone, with reward 0, in their baseline.
    found = best_constant_loo(make_groups([0, 1, 0], norms2=[own, 0, 0]))
    assert found.tolist() == [[[-0.5, 1, 0]]]
