"""One pool: few completions of a prompt, some of them differentiated, and no bias."""

import numpy as np
import pytest

from mse_lab.mse.one_pool import choose_scored, gradient_weights


def test_weights_of_all_completions_are_those_of_leave_one_out():
    """(Z_i - mean of the others) / N."""
    rewards = np.random.default_rng(0).standard_normal(7)
    others = (rewards.sum() - rewards) / 6
    weights = gradient_weights(rewards, np.arange(7))
    np.testing.assert_allclose(weights, (rewards - others) / 7)


def test_scored_completions_stand_for_those_that_were_not():
    """By hand: c (N-c) / (N (N-1)) = 2 * 4 / 30, over one right and two wrong ones."""
    rewards = np.array([1.0, 0, 0, 1, 0, 0])
    expected = 8 / 30 * np.array([1, -1 / 2, -1 / 2])
    np.testing.assert_allclose(gradient_weights(rewards, np.array([0, 1, 4])), expected)


def test_at_most_so_many_of_each_kind_are_chosen():
    """All where there are fewer; graded rewards, and no limit, take all."""
    rng = np.random.default_rng(0)
    rewards = np.array([1.0, 0, 0, 0, 0, 0, 1, 1])
    drawn = [choose_scored(rewards, (4, 2), rng) for _ in range(40)]
    for chosen in drawn:
        assert rewards[chosen].tolist().count(1) == 3
        assert len(chosen) == 5
        assert (np.diff(chosen) > 0).all()
    assert set(np.concatenate(drawn)) == set(range(8))
    assert choose_scored(rewards, None, rng).tolist() == list(range(8))
    assert choose_scored(rewards / 2, (2, 2), rng).tolist() == list(range(8))
    with pytest.raises(ValueError, match="two or more"):
        choose_scored(rewards, (1, 2), rng)
