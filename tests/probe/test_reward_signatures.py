"""A user's rewards, of our signature and of TRL's."""

import numpy as np
import pytest

from mse_lab.errors import InputError
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.rewards import UserReward, reward_completions

ROW = {"id": "q7", "problem": "1 + 1", "answer": "2", "level": 3}
PROMPT = Prompt(id="q7", text="1 + 1 =", category="", record=ROW)


def rewards(function, *texts, chat=False):
    reward = UserReward(function, "reward = mine:reward", chat=chat)
    return reward_completions(reward, texts, PROMPT).values_N.tolist()


def of_completions(completions, answer, **kwargs):
    assert kwargs["prompts"] == ["1 + 1"] * len(completions)
    assert kwargs["level"] == [3] * len(completions)
    pairs = zip(completions, answer, strict=True)
    return [float(text == answer) for text, answer in pairs]


def without_kwargs(prompts, completions):
    return np.array([len(one) for one in completions])


def of_messages(completions, prompts, **kwargs):
    assert prompts == [[{"role": "user", "content": "1 + 1"}]] * 2
    assert completions[0][0]["role"] == "assistant"
    return [float(one[0]["content"] == "2") for one in completions]


class Callable:
    def __call__(self, completions, **kwargs):
        return [1.0] * len(completions)


def test_a_reward_for_trl_is_called_as_trl_calls_it():
    """With the columns of the row by name, a list for all completions."""
    assert rewards(of_completions, "2", "3", "2") == [1, 0, 1]
    assert rewards(without_kwargs, "", "ab") == [0, 2]
    assert rewards(Callable(), "a") == [1]
    assert rewards(of_messages, "2", "3", chat=True) == [1, 0]


def test_a_reward_for_trl_is_called_once_for_a_prompts_completions():
    """Copies come as in training, 64 completions at most, and each has its row."""
    calls = []

    def reward(completions, level, **columns):
        calls.append(list(completions))
        level[0].clear()
        return range(len(completions))

    row = {**ROW, "level": [3]}
    guarded = UserReward(reward, "reward")
    texts = ["a", "b", "a"] * 30
    found = reward_completions(guarded, texts, Prompt("q7", "", "", row)).values_N
    assert calls == [texts[:64], texts[64:]]
    assert found.tolist() == [*range(64), *range(26)]
    assert row["level"] == [3]


def test_ours_is_called_once_for_equal_texts():
    calls = []
    assert rewards(lambda text, row: calls.append(text) or 1.0, "a", "b", "a") == [1, 1, 1]
    assert calls == ["a", "b"]


def test_a_reward_for_trl_gets_the_turns_of_a_chat():
    chat = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1 + 1"}]
    seen = []

    def reward(prompts, completions):
        seen.extend(prompts)
        return [1.0] * len(prompts)

    row = {"id": "q7", "problem": chat}
    guarded = UserReward(reward, "reward", chat=True)
    reward_completions(guarded, ["a"], Prompt("q7", "1 + 1", "", row))
    assert seen == [chat]


def test_one_that_wants_texts_is_told_of_the_chat():
    with pytest.raises(InputError, match=r"given messages as prompts.chat is true: failed"):
        rewards(lambda completions: [int(one) for one in completions], "2", chat=True)


def test_ours_is_called_with_a_text_and_a_row():
    assert rewards(lambda text, row: row["level"] * len(text), "ab") == [6]
    assert rewards(lambda *both: len(both), "ab") == [2]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda text: 1.0, r"takes \(text\); write \(text, row\) -> float, or as for TRL"),
        (lambda text, row, level: 1.0, r"takes \(text, row, level\); write"),
        (lambda completions: [], "gave 0 rewards for 1 completions"),
        (lambda completions: [None], "TypeError"),
        (lambda completions, completion_ids: [0], "'completion_ids'"),
    ],
)
def test_another_form_is_refused_with_those_that_are_taken(function, message):
    with pytest.raises(InputError, match=message):
        rewards(function, "a")
