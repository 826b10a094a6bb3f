"""The summary in words: 80 columns, the answer first, and what each log cannot tell."""

import pytest

from log_makers import draw_groups, groups_of, summarise
from mse_lab.measurement import looks
from mse_lab.report.rollouts_report import (
    FIRST_COMPLETIONS,
    FIRST_PROMPTS,
    headline,
    parts_of,
    rollouts_markdown,
    rollouts_text,
)


def titles(summary):
    return [part.title for part in parts_of(summary)[1:]]


def said(summary):
    return " ".join(rollouts_text(summary).split())


def full(tmp_path):
    """A log that has everything, and long names."""
    lines = [
        {
            "prompt": f"prompt {n // 4}",
            "step": n // 16,
            "tokens": [5] * (2 + n % 5) + [n % 2],
            "rewards": {"right": n % 3 % 2, "a_reward_function_with_a_very_long_name": 0.5},
            "log_probs": [-1.0] * (3 + n % 5),
            "trainer_log_probs": [-1.1] * (3 + n % 5),
        }
        for n in range(160)
    ]
    return summarise(tmp_path, lines)


def test_a_screen_has_80_columns(tmp_path):
    text = rollouts_text(full(tmp_path))
    assert not [line for line in text.splitlines() if len(line) > 80]
    for part in ("Values", "At other", "Completions", "Reward functions", "sampler's"):
        assert part in text


def test_the_answer_comes_first(tmp_path):
    summary = summarise(tmp_path, groups_of([0, 0], [1, 1], [0, 1], [0, 0]))
    assert headline(summary) == parts_of(summary)[0].sentences[0]
    assert "of the groups have zero variance: 50% all wrong, 25% all right" in said(summary)
    assert "They took 6 of 8 completions, and give no gradient." in said(summary)


def test_a_share_that_says_nothing_of_others_is_said_of_these(tmp_path):
    text = headline(summarise(tmp_path, groups_of([1, 1], [0, 1])))
    assert text.startswith("50% of the groups have zero variance")


def test_a_log_in_which_all_is_well(tmp_path):
    assert headline(summarise(tmp_path, groups_of([0, 1]))) == (
        "Every group of 2 has rewards that vary."
    )


def test_what_a_step_is_made_of(tmp_path):
    row = {"input": "", "output": "", "score": 1.0, "step": 1}
    lines = [
        row | {"input": f"p{n // 4}", "score": n % 2, "output": f"{n}"} for n in range(8)
    ]
    text = said(summarise(tmp_path, lines))
    assert (
        "A step has 2 prompts x 4 = 8 completions (verl: data.train_batch_size = 2" in text
    )
    assert "actor_rollout_ref.rollout.n = 4)" in text
    assert "Of the 2 prompts of a step 2.0 have a gradient" in text


def test_groups_with_a_gradient_at_other_sizes(tmp_path):
    """Of 4 x 8 completions a step: 16 groups of 2, of which 1 - z vary."""
    summary = summarise(tmp_path, draw_groups([0.5] * 4, 8, groups=5))
    part = next(part for part in parts_of(summary) if part.title == "At other group sizes")
    two = summary.forecasts[0].zero_variance.value
    assert part.rows[0][2] == f"{16 * (1 - two):.1f} of 16"
    assert "(in use)" in part.rows[2][0]
    assert "(model)" in part.rows[3][0]


def test_graded_rewards_have_no_right_and_wrong(tmp_path):
    text = said(summarise(tmp_path, groups_of([0, 0.5, 1], [0.5, 0.5, 0.5])))
    assert "prompts always at the least reward" in text
    assert "in the range's 0 to 0.25" in text
    assert "never right" not in text


def test_one_completion_a_prompt(tmp_path):
    summary = summarise(tmp_path, groups_of([0], [1], [1]))
    assert headline(summary).startswith("Mean reward 0.67")
    assert titles(summary) == [
        "Values of prompts", "Completions", "Notes", "What these logs cannot tell",
        "Verdicts",
    ]  # fmt: skip
    assert "One completion a prompt: no groups" in said(summary)


def test_what_logs_cannot_tell(tmp_path):
    """The command that can, and what it draws: its first look as it is."""
    assert (FIRST_PROMPTS, FIRST_COMPLETIONS) == (
        looks.FIRST_PROMPTS,
        looks.FIRST_COMPLETIONS,
    )
    text = said(summarise(tmp_path, groups_of([0, 1])))
    assert "Which group size has the least gradient error" in text
    assert "advise PROBE measures it: its first look draws 48 prompts x 8 = 384" in text
    assert "these logs hold 2." in text


def test_markdown(tmp_path):
    summary = full(tmp_path)
    text = rollouts_markdown(summary)
    assert text.startswith("## ")
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.count("|") >= 3 for line in tables)
    for part in parts_of(summary):
        assert f"## {part.title}" in text


@pytest.mark.parametrize(
    "rewards", [[[0, 0]], [[1, 1]], [[0.5, 0.5], [2, 0.5]], [[-3, -3]]]
)
def test_no_log_leaves_a_number_out(tmp_path, rewards):
    text = rollouts_text(summarise(tmp_path, groups_of(*rewards)))
    assert "nan" not in text.lower()
    assert "inf" not in text.lower()


def test_right_is_told_where_rewards_are_not_0_and_1(tmp_path):
    told = "Right is a reward of 2, wrong one of 1; V is the share of right completions."
    assert told in said(summarise(tmp_path, groups_of([1, 2], [1, 1])))
    for rewards in ([0, 1], [2, 2], [0, 1, 2]):
        assert "Right is" not in said(summarise(tmp_path, groups_of(rewards)))


def test_luck_may_exceed_the_spread(tmp_path):
    summary = summarise(tmp_path, groups_of(*[[0, 1]] * 8))
    assert "spread of the groups' means (sd) 0, chance alone gives 0.5" in said(summary)
