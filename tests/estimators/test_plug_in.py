"""Plug-in baselines: hand values, a loop, and the cases without weight."""

import numpy as np
import pytest
from toy import make_groups

from mse_lab.estimators.leave_one_out import centred, grpo
from mse_lab.estimators.plug_in import best_constant_loo, opo, opo_loo

# Without the first, no reward; without i, 1 of the remaining 10 - i: 1/8, 1/7, 1/6.
BY_HAND = [[[1, -1 / 8, -1 / 7, -1 / 6]]]


def test_best_constant_loo_by_hand():
    found = best_constant_loo(make_groups([1, 0, 0, 0], norms2=[1, 2, 3, 4]))
    np.testing.assert_allclose(found, BY_HAND, rtol=1e-14)


def test_opo_loo_by_hand():
    found = opo_loo(make_groups([1, 0, 0, 0], lengths=[1, 2, 3, 4]))
    np.testing.assert_allclose(found, BY_HAND, rtol=1e-14)


def test_opo_by_hand():
    # b = 1 * 1 / (1 + 2 + 3 + 4) = 1/10.
    found = opo(make_groups([1, 0, 0, 0], lengths=[1, 2, 3, 4]))
    np.testing.assert_allclose(found, [[[0.9, -0.1, -0.1, -0.1]]], rtol=1e-14)


def test_equal_lengths_and_norms_give_the_plain_means():
    group = make_groups(np.random.default_rng(0).normal(size=(2, 3, 5)), lengths=7)
    np.testing.assert_allclose(opo(group), centred(group), rtol=1e-12)
    np.testing.assert_allclose(opo_loo(group), grpo(group), rtol=1e-12)
    np.testing.assert_allclose(best_constant_loo(group), grpo(group), rtol=1e-12)


def test_best_constant_loo_is_a_loop_over_the_others():
    rng = np.random.default_rng(1)
    rewards, norms2 = rng.normal(size=6), rng.uniform(0.1, 9, size=6)
    expected = [
        rewards[i] - np.average(np.delete(rewards, i), weights=np.delete(norms2, i))
        for i in range(6)
    ]
    found = best_constant_loo(make_groups(rewards, norms2=norms2))[0, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("own", [1.0, 1e30])
def test_scores_of_zero_take_the_plain_mean_of_the_others(own):
    # Completion 1 has others without a score: their mean is (1 + 0) / 2. The rest have
    # completion 1 alone, with reward 0, in their baseline.
    found = best_constant_loo(make_groups([0, 1, 0], norms2=[own, 0, 0]))
    assert found.tolist() == [[[-0.5, 1, 0]]]
