"""The two log-probabilities: KL, effective sample size, and what TRL would mask."""

import numpy as np
import pytest

from log_makers import read, summarise
from mse_lab.errors import InputError


def line(drawn, given, **more):
    return {"prompt": "a", "reward": 0, "tokens": [1] * len(drawn), "log_probs": drawn,
            "trainer_log_probs": given, **more}  # fmt: skip


def test_by_hand(tmp_path):
    """Log ratios log 4, 0, -log 2 and 0 in one token each."""
    ratios = np.array([4.0, 1.0, 0.5, 1.0])
    lines = [line([-3.0], [-3.0 + float(np.log(one))]) for one in ratios]
    found = summarise(tmp_path, lines).log_ratios
    assert found.completions == 4
    assert found.kl_per_token == pytest.approx(np.mean(ratios - 1 - np.log(ratios)))
    assert found.sd == pytest.approx(np.log(ratios).std())
    assert found.effective == pytest.approx(ratios.sum() ** 2 / (ratios @ ratios) / 4)
    assert found.masked == 0.25


def test_a_tokens_divergence_is_estimated_without_bias():
    """E over draws of r - 1 - log r is the divergence, for two laws of three tokens."""
    drawn, given = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.4, 0.2])
    ratio = given / drawn
    assert drawn @ (ratio - 1 - np.log(ratio)) == pytest.approx(
        drawn @ np.log(drawn / given)
    )


def test_tools_tokens_are_left_out(tmp_path):
    lines = [line([-1, -9, -1], [-1, -1, -1], mask=[1, 0, 1])]
    columns = read(tmp_path, lines).columns
    assert columns.tokens_N.tolist() == [2]
    assert columns.log_ratio_N.tolist() == [0.0]


def test_tokens_without_one_are_left_out(tmp_path):
    columns = read(tmp_path, [line([-1.0, None], [-1.5, -1.0])]).columns
    assert columns.tokens_N.tolist() == [1]
    assert columns.log_ratio_N.tolist() == [-0.5]


def test_lists_of_unlike_lengths_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"line 1: 2 log-prob.* 1 of the trainer"):
        read(tmp_path, [line([-1.0, -1.0], [-1.0])])


def test_with_one_of_them_nothing_is_said(tmp_path):
    lines = [{"prompt": "a", "reward": 0, "tokens": [1], "log_probs": [-1.0]}]
    assert summarise(tmp_path, lines).log_ratios is None
