"""Several reward functions: what varies, what drives, and whether advantages agree."""

import pytest

from log_makers import groups_of, summarise
from mse_lab.trainer_logs.reward_functions import advantage_fits, reward_functions


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


@pytest.mark.parametrize(
    ("advantages", "fits"),
    [
        ([-1, 1, 0, 0], True),  # of the sum, divided by what you like
        ([-0.3, 0.3, 0, 0], True),
        ([-1, 1, 1, -1], False),  # of right alone
        ([1, -1, 0, 0], False),
    ],
)
def test_advantages_follow_the_sum(tmp_path, advantages, fits):
    found = summarise(tmp_path, lines([(0, 0), (1, 1), (1, 0), (0, 1)], advantages))
    assert advantage_fits(found.groups) is fits
    assert any("do not follow the sum" in note for note in found.notes) is not fits


def test_without_advantages_nothing_is_said(tmp_path):
    assert summarise(tmp_path, lines([(0, 0), (1, 1)])).advantage_fits is None
    still = lines([(1, 1), (1, 1)], [0.0, 0.0])
    assert summarise(tmp_path, still).advantage_fits is None
