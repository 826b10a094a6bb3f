"""Values of prompts: bands, their spread without the draws' luck, drift."""

import numpy as np
import pytest

from log_makers import draw_groups, groups_of, summarise


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
