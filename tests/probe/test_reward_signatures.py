"""A user's rewards, of our signature and of TRL's."""

import numpy as np
import pytest

from mse_lab.errors import InputError
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.rewards import guard_reward, reward_completions

ROW = {"id": "q7", "problem": "1 + 1", "answer": "2", "level": 3}
PROMPT = Prompt(id="q7", text="1 + 1 =", category="", record=ROW)


def rewards(function, *texts, chat=False):
    reward = guard_reward(function, "reward = mine:reward", chat=chat)
    return reward_completions(reward, texts, PROMPT).values_N.tolist()


def of_completions(completions, answer, **kwargs):
    assert kwargs["prompts"] == ["1 + 1"]
    assert kwargs["level"] == [3]
    pairs = zip(completions, answer, strict=True)
    return [float(text == answer) for text, answer in pairs]


def without_kwargs(prompts, completions):
    return np.array([len(one) for one in completions])


def of_messages(completions, prompts, **kwargs):
    assert prompts == [[{"role": "user", "content": "1 + 1"}]]
    assert completions[0][0]["role"] == "assistant"
    return [float(one[0]["content"] == "2") for one in completions]


class Callable:
    def __call__(self, completions, **kwargs):
        return [1.0] * len(completions)


def test_a_reward_for_trl_is_called_as_trl_calls_it():
    """With the columns of the row by name, one completion at a time."""
    assert rewards(of_completions, "2", "3", "2") == [1, 0, 1]
    assert rewards(without_kwargs, "", "ab") == [0, 2]
    assert rewards(Callable(), "a") == [1]
    assert rewards(of_messages, "2", "3", chat=True) == [1, 0]


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
        (lambda completions: [], "gave 0 rewards for one completion"),
        (lambda completions: [None], "TypeError"),
        (lambda completions, completion_ids: [0], "'completion_ids'"),
    ],
)
def test_another_form_is_refused_with_those_that_are_taken(function, message):
    with pytest.raises(InputError, match=message):
        rewards(function, "a")
