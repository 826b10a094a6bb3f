"""Several reward functions: what varies, and what drives."""

import pytest

from log_makers import groups_of, summarise
from mse_lab.trainer_logs.reward_functions import reward_functions


def lines(pairs, advantages=None, prompt="a"):
    return [
        {"prompt": prompt, "rewards": {"right": one, "tidy": other}}
        | ({} if advantages is None else {"advantage": advantages[n]})
        for n, (one, other) in enumerate(pairs)
    ]


def test_parts_of_the_variance_add_up(tmp_path):
    """Within the group right has deviations -+1/2, tidy -+1/4 along with it."""
    found = summarise(tmp_path, lines([(0, 0), (1, 0.5), (0, 0), (1, 0.5)]))
    right, tidy = found.reward_functions
    assert right.share == pytest.approx(2 / 3)
    assert tidy.share == pytest.approx(1 / 3)
    assert right.mean == 0.5


def test_one_that_never_varies(tmp_path):
    """Tidy differs between prompts, and in no group."""
    pairs = [(0, 1), (1, 1)]
    found = summarise(tmp_path, lines(pairs) + lines([(0, 0), (1, 0)], prompt="b"))
    right, tidy = found.reward_functions
    assert (tidy.varies, tidy.share) == (0, 0)
    assert (right.varies, right.share) == (1, 1)


def test_a_single_function_is_no_list(tmp_path):
    found = summarise(tmp_path, groups_of([0, 1]))
    assert found.reward_functions == []
    assert len(reward_functions(found.groups)) == 1
