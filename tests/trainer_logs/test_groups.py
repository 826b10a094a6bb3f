"""Groups: cut, counted, and their shares of zero-variance groups against enumeration."""

from itertools import combinations

import numpy as np
import pytest

from log_makers import groups_of, read, summarise
from mse_lab.errors import InputError
from mse_lab.report.rollouts_report import rollouts_text
from mse_lab.trainer_logs.groups import make_groups


def groups(tmp_path, records, size=None):
    return make_groups(read(tmp_path, records), size)


def one_by_one(prompts, step=1):
    return [
        {"prompt": prompt, "reward": n % 2, "step": step}
        for n, prompt in enumerate(prompts)
    ]


@pytest.mark.parametrize(
    "rewards", [[0, 1, 1, 0, 1], [0.5, 0, 0.5, 1, 1], [2, 2, 2, 2], [0, 1]]
)
def test_shares_are_those_of_all_groups_within_a_group(tmp_path, rewards):
    found = groups(tmp_path, groups_of(rewards, [0, 0]))
    for size in range(2, len(rewards) + 1):
        drawn = [len(set(one)) == 1 for one in combinations(rewards, size)]
        share = found.zero_variance_shares(size)
        assert share[0] == pytest.approx(np.mean(drawn))
        assert share[1] == (1 if size == 2 else pytest.approx(np.nan, nan_ok=True))


def test_moments(tmp_path):
    found = groups(tmp_path, groups_of([0, 1, 1], [3, 3], [2]))
    assert found.mean_K == pytest.approx([2 / 3, 3, 2])
    assert found.variance_K == pytest.approx([1 / 3, 0, np.nan], nan_ok=True)
    assert found.zero_variance_K.tolist() == [False, True, True]
    assert found.commonest_size == 3  # Of sizes that are as common the largest.


def test_a_prompt_that_came_twice_in_a_step_is_two_groups(tmp_path):
    """A has 8 completions where the others have 4: by their order, 4 and 4."""
    lines = one_by_one("aaaabbbbaaaacccc") + one_by_one("aaaa", step=2)
    found = groups(tmp_path, lines)
    assert found.size_K.tolist() == [4] * 5
    assert found.drawn_twice == 1
    assert found.commonest_size == 4
    assert found.prompt_K.tolist() == [0, 0, 1, 2, 0]


def test_prompts_that_all_came_twice(tmp_path):
    """What stands together tells: a data set smaller than a step's batch."""
    found = groups(tmp_path, one_by_one("aaaabbbbaaaabbbb"))
    assert found.size_K.tolist() == [4] * 4


def test_in_a_mixed_order_the_commonest_number_tells(tmp_path):
    found = groups(tmp_path, one_by_one("abcabcabcaabca"))
    assert found.size_K.tolist() == [6, 4, 4]


def test_groups_that_the_log_names_are_not_cut(tmp_path):
    assert groups(tmp_path, groups_of([0, 1], [0, 1], [0, 1] * 2)).size_K.tolist() == [
        2,
        2,
        4,
    ]


def test_a_group_size_that_is_given(tmp_path):
    found = groups(tmp_path, one_by_one("a" * 8 + "b" * 8), 4)
    assert found.size_K.tolist() == [4] * 4


def test_other_sizes_are_left_as_they_are(tmp_path):
    """A run that was killed in a step: 3 of 4."""
    assert groups(tmp_path, one_by_one("aaaabbbbccc")).size_K.tolist() == [4, 4, 3]


def test_single_completions_are_no_groups_to_cut_by(tmp_path):
    found = groups(tmp_path, one_by_one("abcdd"))
    assert found.size_K.tolist() == [1, 1, 1, 2]
    assert found.commonest_size == 1


def test_right_and_wrong(tmp_path):
    found = groups(tmp_path, groups_of([-1, -1], [1, -1], [1, 1]))
    assert found.right_K.tolist() == [0, 1, 2]
    assert found.wrong_K.tolist() == [2, 1, 0]
    assert found.binary


@pytest.mark.parametrize(("reward", "right"), [(0, 0), (1, 2), (-1, 0)])
def test_where_all_rewards_are_one_its_sign_decides(tmp_path, reward, right):
    found = groups(tmp_path, groups_of([reward, reward]))
    assert found.right_K.tolist() == [right]
    assert found.wrong_K.tolist() == [2 - right]


def test_graded_rewards(tmp_path):
    found = groups(tmp_path, groups_of([0, 0.5, 1], [0.5, 0.5, 0.5]))
    assert not found.binary
    assert found.zero_variance_K.tolist() == [False, True]
    assert (found.right_K + found.wrong_K).tolist() == [2, 0]


def test_completions_without_a_reward_are_left_out(tmp_path):
    lines = [*one_by_one("aaaa"), {"prompt": "a", "reward": float("nan"), "step": 1}]
    found = groups(tmp_path, lines)
    assert found.size_K.tolist() == [4]
    assert found.unscored == 1
    assert "1 completions have no reward" in " ".join(summarise(tmp_path, lines).notes)


def test_missing_rewards_do_not_change_the_size_in_use(tmp_path):
    """One of each four has none: G stays 4, known by the model of three rewards."""
    lines = [
        one | ({"reward": None} if n % 4 == 3 else {})
        for n, one in enumerate(one_by_one("aaaabbbbccccddddaaaa"))
    ]
    found = summarise(tmp_path, lines)
    assert (found.groups.commonest_size, found.groups.size_in_use) == (3, 4)
    assert found.as_dict()["group_size"] == 4
    assert found.groups.drawn_twice == 1
    marked = {one.group_size: one.model for one in found.forecasts}
    assert (marked[3], marked[4]) == (False, True)
    assert "G = 4 (in use, model)" in rollouts_text(found)


def test_no_reward_at_all(tmp_path):
    with pytest.raises(InputError, match="reward: no completion has a reward"):
        groups(tmp_path, [{"prompt": "a", "reward": None}])
    lines = [{"step": 1, "prompt": "a", "completion": "b", "advantage": 0.0}] * 2
    with pytest.raises(InputError, match="no column of rewards"):
        groups(tmp_path, lines)
