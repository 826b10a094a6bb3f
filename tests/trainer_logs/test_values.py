"""Values of prompts: bands, their spread without the draws' luck, drift."""

from itertools import product

import numpy as np
import pytest

from log_makers import draw_groups, groups_of, read, summarise, two_rewards
from mse_lab.errors import InputError
from mse_lab.trainer_logs.values import reward_functions


def test_bands(tmp_path):
    rewards = [[0] * 4, [0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1], [1] * 4]
    found = summarise(tmp_path, groups_of(*rewards))
    assert found.bands == {
        "never right": 1, "0 to 0.25": 0, "0.25 to 0.5": 1, "0.5 to 0.75": 1,
        "0.75 to 1": 1, "always right": 1,
    }  # fmt: skip
    assert found.never_right.value == pytest.approx(0.2)
    assert found.always_right.value == pytest.approx(0.2)
    assert found.prompts["value"].tolist() == [0, 0.25, 0.5, 0.75, 1]


def test_bands_of_graded_rewards_are_on_their_range(tmp_path):
    """Means -1, 1 and -2 of rewards from -2 to 2: a quarter, three quarters, never."""
    bands = summarise(tmp_path, groups_of([-2, 0], [2, 0], [-2, -2])).bands
    assert (bands["never right"], bands["0.25 to 0.5"], bands["0.75 to 1"]) == (1, 1, 1)


def test_a_prompts_groups_are_one_prompt(tmp_path):
    found = summarise(tmp_path, draw_groups([0.5] * 10, 8, groups=3))
    assert len(found.prompts) == 10
    assert found.prompts["groups"].tolist() == [3] * 10
    assert found.prompts["completions"].tolist() == [24] * 10


def test_equal_values_have_no_spread_beyond_luck(tmp_path):
    """All V = 0.3: groups of 8 have means of sd sqrt(.3 .7 / 8) = 0.162."""
    spread = summarise(tmp_path, draw_groups([0.3] * 400, 8)).spread
    assert spread.luck == pytest.approx(0.162, abs=0.01)
    assert spread.between.low == 0
    assert spread.between.high < 0.08


def test_the_spread_of_values_is_found_under_the_luck(tmp_path):
    """V uniform, sd 0.289; of groups of 4 alone the means have sd 0.35."""
    values = np.random.default_rng(1).random(600)
    spread = summarise(tmp_path, draw_groups(values, 4)).spread
    assert spread.between.low < values.std() < spread.between.high
    assert spread.seen > 0.33


def test_the_spread_is_without_bias_where_prompts_are_drawn_again(tmp_path):
    """V is 0 or 1 for each of three prompts, so without luck: variance 1/4 on average.

    Prompts have four, two and one groups; all eight draws of V are as likely.
    """
    squares = []
    for values in product((0, 1), repeat=3):
        groups = zip("aaaabbc", np.repeat(values, (4, 2, 1)).tolist(), strict=True)
        lines = [{"prompt_id": prompt, "rewards": [one] * 2} for prompt, one in groups]
        spread = summarise(tmp_path, lines).spread
        assert (spread.luck, spread.seen) == (0, pytest.approx(spread.between.value))
        squares.append(spread.between.value**2)
    assert np.mean(squares) == pytest.approx(1 / 4)


def test_one_prompt_does_not_tell_how_far_values_lie_apart(tmp_path):
    """Means 0 and 1 of its two groups."""
    spread = summarise(tmp_path, [{"prompt_id": "p", "step": step, "rewards": [step] * 2}
                                  for step in range(2)]).spread  # fmt: skip
    assert np.isnan(spread.between).all()
    assert (spread.seen, spread.luck) == (pytest.approx(np.sqrt(1 / 2)), 0)


def test_drift(tmp_path):
    """V = 0.2 in the first three of nine steps, 0.6 in the last."""
    lines = []
    for step in range(9):
        for line in draw_groups([0.2 + 0.2 * (step // 3)] * 60, 8, seed=step):
            lines.append(line | {"step": step})
    drift = summarise(tmp_path, lines).drift
    assert drift.low < 0.4 < drift.high
    assert drift.high - drift.low < 0.12


def test_an_interval_that_no_change_leaves_is_none(tmp_path):
    """Two prompts a step: its ends would be -6 and 7, of rewards between 0 and 1."""
    lines = [line | {"step": step} for step in range(4)
             for line in groups_of([0] * 4, [int(step == 3)] * 4)]  # fmt: skip
    for at, line in enumerate(lines):
        line["prompt_id"] = f"p{at}"
    assert np.isnan(summarise(tmp_path, lines).drift.value)


def test_few_steps_show_no_drift(tmp_path):
    found = summarise(tmp_path, draw_groups([0.5] * 4, 4, groups=3))
    assert np.isnan(found.drift.value)
    assert any("drift would not show" in note for note in found.notes)


def test_a_mean_reward_of_zero_is_not_known_exactly(tmp_path):
    """All of 60 prompts wrong: at most 6% of all, as for any share."""
    mean = summarise(tmp_path, groups_of(*[[0] * 8] * 59, [0] * 7 + [0])).mean_reward
    assert (mean.value, mean.low) == (0, 0)
    assert mean.high == pytest.approx(0.06, abs=0.005)


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


def both(drawn, given, **more):
    return {"prompt": "a", "reward": 0, "tokens": [1] * len(drawn), "log_probs": drawn,
            "trainer_log_probs": given, **more}  # fmt: skip


def test_by_hand(tmp_path):
    """Log ratios log 4, 0, -log 2 and 0 in one token each."""
    ratios = np.array([4.0, 1.0, 0.5, 1.0])
    lines = [both([-3.0], [-3.0 + float(np.log(one))]) for one in ratios]
    found = summarise(tmp_path, lines).mismatch
    assert found.completions == 4
    assert found.kl_per_token == pytest.approx(np.mean(ratios - 1 - np.log(ratios)))
    assert found.effective == pytest.approx(ratios.sum() ** 2 / (ratios @ ratios) / 4)


def test_tools_tokens_are_left_out(tmp_path):
    columns = read(tmp_path, [both([-1, -9, -1], [-1, -1, -1], mask=[1, 0, 1])]).columns
    assert columns.tokens_N.tolist() == [2]
    assert columns.log_ratio_N.tolist() == [0.0]


def test_tokens_without_one_are_left_out(tmp_path):
    columns = read(tmp_path, [both([-1.0, None], [-1.5, -1.0])]).columns
    assert columns.tokens_N.tolist() == [1]
    assert columns.log_ratio_N.tolist() == [-0.5]


def test_lists_of_unlike_lengths_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"line 1: 2 log-prob.* 1 of the trainer"):
        read(tmp_path, [both([-1.0, -1.0], [-1.0])])


@pytest.mark.parametrize("drawn", [True, False])
def test_a_probability_above_one_is_refused(tmp_path, drawn):
    """Also without the trainer's; what a tool wrote may have any number."""
    lines = [{"prompt": "a", "reward": 0, "tokens": [1, 2], "log_probs": [-1.0, 5.0]}]
    if not drawn:
        read(tmp_path, [{**lines[0], "mask": [1, 0]}])
        return
    with pytest.raises(InputError, match="line 1: 5 is no log-probability"):
        read(tmp_path, lines)


def test_with_one_of_them_nothing_is_said(tmp_path):
    lines = [{"prompt": "a", "reward": 0, "tokens": [1], "log_probs": [-1.0]}]
    assert summarise(tmp_path, lines).mismatch is None


def test_parts_of_the_variance_add_up(tmp_path):
    """Within the group right has deviations -+1/2, tidy -+1/4 along with it."""
    found = summarise(tmp_path, two_rewards([(0, 0), (1, 0.5), (0, 0), (1, 0.5)]))
    right, tidy = found.reward_functions
    assert right.share == pytest.approx(2 / 3)
    assert tidy.share == pytest.approx(1 / 3)
    assert right.mean == 0.5


def test_one_that_never_varies(tmp_path):
    """Tidy differs between prompts, and in no group."""
    pairs = [(0, 1), (1, 1)]
    found = summarise(
        tmp_path, two_rewards(pairs) + two_rewards([(0, 0), (1, 0)], prompt="b")
    )
    right, tidy = found.reward_functions
    assert (tidy.varies, tidy.share) == (0, 0)
    assert (right.varies, right.share) == (1, 1)


def test_a_single_function_is_no_list(tmp_path):
    found = summarise(tmp_path, groups_of([0, 1]))
    assert found.reward_functions == []
    assert len(reward_functions(found.groups)) == 1
