"""Which numbers are rewards: the advantages follow their sum."""

import numpy as np
import pytest

from log_makers import summarise, two_rewards
from mse_lab.trainer_logs.reward_columns import total_rewards


@pytest.mark.parametrize(
    ("advantages", "fits"),
    [
        ([-1, 1, 0, 0], True),  # of the sum, divided by what you like
        ([-0.3, 0.3, 0, 0], True),
        ([-1, 1, 1, -1], True),  # of right alone: tidy is no reward
        ([1, -1, 0, 0], False),
    ],
)
def test_advantages_follow_the_sum(tmp_path, advantages, fits):
    found = summarise(tmp_path, two_rewards([(0, 0), (1, 1), (1, 0), (0, 1)], advantages))
    assert found.advantage_fits is fits
    assert any("do not follow the sum" in note for note in found.notes) is not fits


def test_without_advantages_nothing_is_said(tmp_path):
    assert summarise(tmp_path, two_rewards([(0, 0), (1, 1)])).advantage_fits is None
    still = two_rewards([(1, 1), (1, 1)], [0.0, 0.0])
    assert summarise(tmp_path, still).advantage_fits is None


def test_sums_of_reward_functions_forget_rounding():
    """0.1 + 0.2 and 0.3 are one reward; a function that gave none counts as zero."""
    rewards = {"a": np.array([0.1, 0.3, np.nan]), "b": np.array([0.2, 0.0, np.nan])}
    total = total_rewards(rewards)
    assert total[0] == total[1]
    assert np.isnan(total[2])
    partial = total_rewards({"a": np.array([np.nan]), "b": np.array([0.5])})
    assert partial.tolist() == [0.5]
