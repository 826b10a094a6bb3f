"""The summary in words and as a figure: the answer first, and what logs cannot tell."""

import numpy as np
import pytest

from log_makers import draw_groups, groups_of, summarise
from mse_lab.report.rollouts_figure import MOST_STEPS, compose_rollouts
from mse_lab.report.rollouts_report import (
    rollouts_headline,
    rollouts_markdown,
    rollouts_parts,
    rollouts_text,
)


def said(summary):
    return " ".join(rollouts_text(summary).split())


def full(tmp_path):
    """A log that has everything, and long names."""
    lines = [
        {
            "prompt_id": f"prompt {n // 4}",
            "step": n // 16,
            "tokens": [5] * (2 + n % 5) + [n % 2],
            "rewards": {"right": n % 3 % 2, "a_reward_function_with_a_very_long_name": 0.5},
            "log_probs": [-1.1] * (3 + n % 5),
            "engine_log_probs": [-1.0] * (3 + n % 5),
        }
        for n in range(160)
    ]
    return summarise(tmp_path, lines)


def test_a_screen_has_80_columns_and_markdown_the_same_parts(tmp_path):
    summary = full(tmp_path)
    text, markdown = rollouts_text(summary), rollouts_markdown(summary)
    # A path is kept whole, so that it can be copied.
    plain = text.replace(str(tmp_path), "")
    assert not [line for line in plain.splitlines() if len(line) > 80]
    heads = ["Values", "At other", "Completions", "The reward is right + a_", "engine's"]
    assert all(head in text for head in heads)
    assert all(f"## {part.title}" in markdown for part in rollouts_parts(summary))


ONE_A_PROMPT = groups_of([0], [1], [1])
GRADED = groups_of([0, 0.5, 1], [0.5, 0.5, 0.5])
# What is written, what is said of it, and what is not.
SAID = {
    "a share of these": (groups_of([1, 1], [0, 1]), ["50% of the groups have zero"], []),
    "all is well": (
        groups_of([0, 1]),
        ["Every group of 2 has rewards that vary.",
         "2 completions of 1 prompt in 1 group, commonly of 2"], [],
    ),
    "graded": (
        GRADED, ["prompts always at the least reward", "in the range's 0 to 0.25"],
        ["never right", "Right is"],
    ),
    "one a prompt": (
        ONE_A_PROMPT, ["Mean reward 0.67", "One completion a prompt: no groups"],
        ["At other group sizes"],
    ),
    "rewards 1 and 2": (
        groups_of([1, 2], [1, 1]),
        ["Right is a reward of 2, wrong one of 1; V is the share of right"], [],
    ),
    "luck above the spread": (
        groups_of(*[[0, 1]] * 8),
        ["spread of values (sd) under 0.001"], [],
    ),
    "what was left out": (
        [{"prompt_id": "a", "reward": reward} for reward in (0, 1, None)],
        ["1 completions have no reward: left out."], ["nan"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_what_is_said(tmp_path, name):
    lines, expected, unsaid = SAID[name]
    summary = summarise(tmp_path, lines)
    assert rollouts_headline(summary) == next(rollouts_parts(summary)).sentences[0]
    for words in expected:
        assert words in said(summary)
    for words in unsaid:
        assert words not in said(summary)


def labels(summary):
    axes = compose_rollouts(summary).axes
    return [one.get_xlabel() for one in axes if one.get_visible()]


def test_the_panels_are_those_that_a_log_has(tmp_path):
    assert labels(summarise(tmp_path, ONE_A_PROMPT)) == ["Value V of a prompt"]
    assert labels(full(tmp_path)) == [
        "Value V of a prompt",
        "Group size G",
        "Length of a completion, tokens",
        "Training step",
    ]


def test_the_figure_shows_the_numbers(tmp_path):
    summary = summarise(tmp_path, draw_groups([0.1, 0.5, 0.9] * 10, 8, groups=100))
    bars, curve, steps = compose_rollouts(summary).axes[:3]
    assert sum(bar.get_height() for bar in bars.patches) == 30
    expected = [(size, one.value) for size, one in summary.numbers["forecast"].items()]
    np.testing.assert_allclose(curve.lines[0].get_xydata(), expected)
    [mark] = [line for line in curve.lines if "in use" in str(line.get_label())]
    assert mark.get_xydata().tolist() == [[8, summary.numbers["zero_variance"].value]]
    means = steps.lines[0].get_ydata()
    assert len(means) <= MOST_STEPS
    assert means.mean() == pytest.approx(
        summary.numbers["mean_reward_interval"].value, abs=0.02
    )
