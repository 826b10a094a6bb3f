"""The forecast of zero-variance groups: unbiased by enumeration; marked beyond."""

from itertools import product

import numpy as np
import pytest

from log_makers import draw_groups, groups_of, summarise
from mse_lab.mse.zero_variance import equal_share


def test_it_is_unbiased_at_every_size_up_to_the_draws():
    """All 2^5 outcomes of 5 draws, each with its probability."""
    value, drawn = 0.3, 5
    for size in range(2, drawn + 1):
        expected = value**size + (1 - value) ** size
        mean = 0.0
        for outcome in product([0, 1], repeat=drawn):
            right = sum(outcome)
            likelihood = value**right * (1 - value) ** (drawn - right)
            counts = np.array([right, drawn - right], float)
            mean += likelihood * equal_share(counts, np.array([drawn] * 2), size).sum()
        assert mean == pytest.approx(expected)


def test_at_the_size_in_use_it_is_what_was_seen(tmp_path):
    found = summarise(tmp_path, groups_of([0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]))
    [used] = [one for one in found.forecasts if one.group_size == 4]
    assert used.zero_variance == found.zero_variance
    assert used.zero_variance.value == pytest.approx(2 / 3)
    # 1, (C(1, 2) + C(3, 2)) / C(4, 2) = 1/2, 1
    assert found.forecasts[0].zero_variance.value == pytest.approx(5 / 6)
    assert [(one.group_size, one.model) for one in found.forecasts] == [
        (2, False), (4, False), (8, True), (16, True),
    ]  # fmt: skip


def test_from_the_mean_reward_alone_it_would_be_far_off(tmp_path):
    """Values Beta(.3, .3): .53 at G = 8, where the mean .5 would say .008."""
    values = np.random.default_rng(0).beta(0.3, 0.3, size=400)
    found = summarise(tmp_path, draw_groups(values, 16))
    [eight] = [one.zero_variance for one in found.forecasts if one.group_size == 8]
    truth = np.mean(values**8 + (1 - values) ** 8)
    assert eight.low < truth < eight.high
    assert eight.value > 0.45
    # Beyond the 16 drawn a Beta law, which these values have, is not far off either.
    [beyond] = [one.zero_variance for one in found.forecasts if one.group_size == 64]
    assert beyond.low < np.mean(values**64 + (1 - values) ** 64) < beyond.high


def test_graded_rewards_have_no_model(tmp_path):
    found = summarise(tmp_path, groups_of([0, 0.5, 1, 1], [0.5, 0.5, 0.5, 0.5]))
    assert [one.group_size for one in found.forecasts] == [2, 4]
    assert not any(one.model for one in found.forecasts)


def test_smaller_groups_do_not_count_at_larger_sizes(tmp_path):
    found = summarise(tmp_path, groups_of([0, 0, 0, 0], [0, 1, 0, 1], [1, 1]))
    [four] = [one for one in found.forecasts if one.group_size == 4]
    assert four.zero_variance.value == 0.5


def test_single_completions_have_none(tmp_path):
    assert summarise(tmp_path, groups_of([0], [1])).forecasts == []
