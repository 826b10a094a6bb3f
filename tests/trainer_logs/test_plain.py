"""The general form: a line for each completion, or for each group."""

import numpy as np
import pytest

from log_makers import groups_of, read, summarise
from mse_lab.errors import InputError


def test_a_line_a_group(tmp_path):
    columns = read(tmp_path, groups_of([0, 1, 1], [0, 0])).columns
    assert columns.rewards["reward"].tolist() == [0, 1, 1, 0, 0]
    assert columns.group_N.tolist() == [0, 0, 0, 1, 1]
    assert list(columns.prompts) == ["p0", "p1"]


def test_two_lines_of_a_prompt_are_two_groups(tmp_path):
    lines = [{"prompt_id": "p", "rewards": [0, 1]}] * 2
    columns = read(tmp_path, lines).columns
    assert columns.group_N.tolist() == [0, 0, 1, 1]
    assert columns.prompt_N.tolist() == [0] * 4


def test_a_line_a_completion(tmp_path):
    line = {"prompt": "1 + 1", "reward": 1, "tokens": [5, 0], "step": 3, "truncated": False}
    columns = read(tmp_path, [line, line | {"step": 4, "reward": None}]).columns
    assert columns.group_N.tolist() == [0, 1]
    assert columns.length_N.tolist() == [2, 2]
    assert columns.truncated_N.tolist() == [0, 0]
    assert np.isnan(columns.rewards["reward"][1])


def test_the_completions_of_a_measurement_are_of_this_form(tmp_path):
    """Log-probabilities are sums there, and say nothing of single tokens."""
    line = {"prompt": "a", "pool": "reference", "text": "5", "reward": 1.0, "length": 2,
            "log_prob": -0.5, "log_probs": -0.5, "truncated": False}  # fmt: skip
    assert read(tmp_path, [line]).columns.length_N.tolist() == [2]


def test_rewards_by_function(tmp_path):
    lines = [{"prompt": "a", "rewards": {"right": 1, "brief": 0.5}}] * 2
    assert summarise(tmp_path, lines).groups.reward_N.tolist() == [1.5, 1.5]


def test_a_key_that_later_lines_lack_is_named(tmp_path):
    lines = [{"prompt": "a", "reward": 1}, {"prompt": "b"}]
    with pytest.raises(InputError, match=r"log.jsonl, line 2: reward is missing"):
        read(tmp_path, lines)
