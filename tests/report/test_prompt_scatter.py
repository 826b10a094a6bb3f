"""Prompts on the page: what is told of the dots, against sums by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from mse_lab.report import prompt_scatter


def pools(rewards_PN, norms2_PN):
    rewards_PN, norms2_PN = np.array(rewards_PN, float), np.array(norms2_PN, float)
    found = SimpleNamespace(
        rewards_PN=rewards_PN, norms2_PN=norms2_PN, value_P=rewards_PN.mean(1)
    )
    return SimpleNamespace(pools=found)


def test_norms_of_right_and_wrong_completions():
    """Medians of 1/2, 1/4 and 3; the last prompt has no wrong completion."""
    rewards = [[1] * 5 + [0] * 5] * 3 + [[1] * 10]
    norms2 = [[1] * 5 + [2] * 5, [1] * 5 + [4] * 5, [6] * 5 + [2] * 5, [1] * 10]
    told, draw = prompt_scatter._norms(pools(rewards, norms2))
    assert "smaller scores at 2 of 3 prompts; median ratio of right to wrong 0.50." in told
    assert "Not shown: 1 with fewer than 5" in told
    assert draw.keywords["right"] == pytest.approx([1, 1, 6])
    assert draw.keywords["wrong"] == pytest.approx([2, 4, 2])


def test_correlations_of_graded_rewards():
    rewards, norms2 = (
        [[0, 0.5, 1], [0, 0.5, 1], [1, 1, 1]],
        [[1, 2, 3], [3, 2, 1], [1, 2, 3]],
    )
    told, draw = prompt_scatter._correlations(pools(rewards, norms2))
    assert "negative at 1 of 2 prompts. Not shown: 1 whose" in told
    assert draw.keywords["found"] == pytest.approx([1, -1])


def test_nothing_to_draw():
    told, draw = prompt_scatter._norms(pools([[1, 0]], [[1, 1]]))
    assert (told, draw) == ("No prompt has 5 right and 5 wrong completions.", None)
