"""Verdicts: each check on a log that it is about, above and below its limit."""

import pytest

from log_makers import draw_groups, groups_of, summarise
from mse_lab.trainer_logs.verdicts import LIMITS, verdict_lines, verdicts_of


def tokens(rewards, length, cut, ratio=0.0):
    """A group of completions, the last `cut` of them cut, with both log-probabilities."""
    return [
        {"prompt": f"p{n}", "reward": reward, "tokens": [n, k, 7], "log_probs": [-1.0] * 3,
         "trainer_log_probs": [-1.0, -1.0, -1.0 + ratio * (-1) ** k],
         "truncated": k >= len(rewards) - cut}
        for n in range(length)
        for k, reward in enumerate(rewards)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "lines", "look"),
    [
        ("silent", groups_of([0, 0], [0, 1]), False),
        ("silent", groups_of([0, 0], [1, 1], [0, 1]), True),
        ("truncated", tokens([1, 1, 1, 0], 8, 0), False),
        ("truncated", tokens([1, 1, 1, 0], 8, 1), True),
        ("mismatch", tokens([0, 1], 8, 0, ratio=0.1), False),
        ("mismatch", tokens([0, 1], 8, 0, ratio=1.0), True),
        ("copies", [{"prompt": "a", "reward": 0, "text": "b"}] * 2, False),
        ("copies", [{"prompt": "a", "reward": 0, "text": "b"}] * 3, True),
    ],
)
def test_each_check(tmp_path, check, lines, look):
    verdict = verdicts_of(summarise(tmp_path, lines))[check]
    assert verdict.look is look
    assert verdict.limit == LIMITS[check]
    assert verdict.line().startswith("LOOK  " if look else "OK    ")
    assert (verdict.action in verdict.line()) is look


@pytest.mark.parametrize(("values", "look"), [((0.8, 0.3), True), ((0.3, 0.8), False)])
def test_a_fall_of_the_mean_reward_needs_a_look(tmp_path, values, look):
    lines = [
        line | {"step": step}
        for step in range(6)
        for line in draw_groups([values[step // 3]] * 60, 8, seed=step)
    ]
    assert verdicts_of(summarise(tmp_path, lines))["drift"].look is look


def test_the_reward_of_what_was_cut(tmp_path):
    line = verdicts_of(summarise(tmp_path, tokens([1, 1, 1, 0], 8, 1)))["truncated"].line()
    assert "mean reward 0 where others have 1 (above 0.10, truncated)" in line
    assert "Raise the limit on the length" in line


def test_what_prompts_to_take(tmp_path):
    for rewards, kind in (([0, 0], "easier prompts"), ([1, 1], "harder prompts")):
        assert (
            kind
            in verdict_lines(summarise(tmp_path, groups_of(rewards, [0, 1], rewards)))[0]
        )


def test_a_log_without_the_numbers(tmp_path):
    lines = verdict_lines(summarise(tmp_path, groups_of([0, 1])))
    assert lines[-1] == "These logs do not tell: truncated, copies, drift, mismatch."
    given = summarise(tmp_path, groups_of([0, 0], [0, 1]), limits={"silent": 0.4})
    assert verdicts_of(given)["silent"].look
