"""Lengths: which completions were cut, told by end tokens; equal ones of a group."""

import numpy as np
import pytest

from log_makers import groups_of, summarise

END = 0


def line(tokens, reward=1, prompt="a", **more):
    return {"prompt": prompt, "reward": reward, "tokens": tokens, **more}


def test_a_completion_of_the_longest_was_cut_if_it_does_not_end(tmp_path):
    lines = [line([5, END]), line([5, 6, END]), line([5, 6, 7]), line([7, 7, 7], reward=0)]
    found = summarise(tmp_path, lines)
    assert found.truncated_N.tolist() == [False, False, True, True]
    assert found.truncated.value == 0.5
    assert found.as_dict()["truncated"] == 0.5


def test_without_an_ended_one_nothing_is_known(tmp_path):
    found = summarise(tmp_path, [line([5, 6]), line([6, 6])])
    assert found.truncated is None
    assert "truncated" not in found.as_dict()


def test_what_the_log_says_comes_first(tmp_path):
    lines = [line([5, 6], truncated=True), line([6, 6], truncated=False)]
    assert summarise(tmp_path, lines).truncated_N.tolist() == [True, False]


def test_a_limit_that_is_given(tmp_path):
    """Lengths alone: those of the limit were cut."""
    lines = [{"prompt": "a", "reward": 1, "length": length} for length in (3, 8, 5, 8)]
    assert summarise(tmp_path, lines).truncated is None
    found = summarise(tmp_path, lines, max_tokens=8)
    assert found.truncated_N.tolist() == [False, True, False, True]


def test_a_limit_above_the_longest_cut_none(tmp_path):
    found = summarise(tmp_path, [line([5, END]), line([5, 6, 7])], max_tokens=8)
    assert not found.truncated_N.any()


def test_tokens_of_tools_do_not_count(tmp_path):
    found = summarise(tmp_path, [line([5, 6, 7, END], mask=[1, 0, 0, 1])] * 2)
    assert found.lengths[1].tolist() == [2, 2]


def test_equal_completions_of_a_group(tmp_path):
    """B's equal one of a is none: it is of another prompt."""
    lines = [line([5, END]), line([5, END]), line([6, END]), line([5, END], prompt="b")]
    found = summarise(tmp_path, lines)
    assert found.duplicates.value == pytest.approx(1 / 4)


def test_texts_have_characters_for_tokens(tmp_path):
    lines = [{"prompt": "a", "reward": 1, "text": text} for text in ("12", "1234")]
    unit, lengths = summarise(tmp_path, lines).lengths
    assert (unit, lengths.tolist()) == ("characters", [2, 4])


def test_rewards_alone_have_no_lengths(tmp_path):
    found = summarise(tmp_path, groups_of([0, 1]))
    assert found.lengths is None
    assert found.duplicates is None


def test_a_mean_over_some_completions(tmp_path):
    found = summarise(tmp_path, groups_of([0, 1, 1], [0, 0, 1]))
    values = np.array([1.0, 2, 3, 4, 5, 6])
    assert found.mean_where(values, found.groups.right_N).value == pytest.approx(11 / 3)
    assert np.isnan(found.mean_where(values, values > 9).value)


def test_few_rewards_that_are_all_wrong_leave_room(tmp_path):
    """3 of 3 prompts without a right one: up to 1 - 0.025^(1/3); else as any mean."""
    found = summarise(tmp_path, groups_of([0, 1], [0, 1], [0, 1]))
    wrong = found.mean_reward_where(found.groups.wrong_N)
    assert (wrong.value, wrong.low) == (0, 0)
    assert wrong.high == pytest.approx(1 - 0.025 ** (1 / 3), abs=0.02)
    graded = summarise(tmp_path, groups_of([0, 2], [0, 2]))
    assert tuple(graded.mean_reward_where(graded.groups.wrong_N)) == (0, 0, 0)
    assert np.isnan(found.mean_reward_where(found.groups.wrong_N & False).value)
