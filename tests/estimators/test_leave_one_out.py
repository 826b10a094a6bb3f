"""The group's mean as the baseline: hand values and the factor between the two."""

import numpy as np
import pytest
from toy import make_groups

from mse_lab.estimators.leave_one_out import centred, grpo

GROUP = make_groups([1, 0, 0, 0])


def test_grpo_by_hand():
    # The others' means: 0 for the right one, 1/3 for each wrong one.
    np.testing.assert_allclose(grpo(GROUP), [[[1, -1 / 3, -1 / 3, -1 / 3]]], rtol=1e-14)


def test_centred_by_hand():
    # The group's mean is 1/4.
    assert centred(GROUP).tolist() == [[[0.75, -0.25, -0.25, -0.25]]]


@pytest.mark.parametrize("size", [2, 3, 8])
def test_grpo_subtracts_the_mean_of_the_others(size):
    rewards = np.random.default_rng(size).normal(size=size)
    expected = [rewards[i] - np.delete(rewards, i).mean() for i in range(size)]
    np.testing.assert_allclose(grpo(make_groups(rewards))[0, 0], expected, rtol=1e-12)
    np.testing.assert_allclose(
        centred(make_groups(rewards))[0, 0],
        np.multiply(expected, (size - 1) / size),
        rtol=1e-12,
    )
