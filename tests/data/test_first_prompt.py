"""The first prompt and its rewards in words, and a warning of a template's tokens."""

import pytest

from mse_lab.data.first_prompt import describe_first
from mse_lab.data.prompts import Prompt
from mse_lab.data.reward_functions import UserReward
from mse_lab.data.rewards import exact, supplied


def prompts(*answers):
    for at, answer in enumerate(answers):
        known = {} if answer is None else {"answer": answer}
        yield Prompt(f"p{at}", "", "", {"id": f"p{at}", "problem": "?"} | known)


def test_the_end_of_a_long_prompt_is_seen():
    (line,) = describe_first([*prompts(None)], exact, "x" * 999 + "Answer: \n")
    assert line.endswith(r"xAnswer: \n'")
    assert " ... " in line


def test_a_reward_that_wants_more_than_the_answer_is_told():
    def boxed(text, row):
        return float(text == f"[{row['answer']}]")

    _, rewards = describe_first([*prompts(2, 2, 3)], UserReward(boxed, "mine"), "?")
    assert rewards == (
        "rewards: 0 for its reference answer '2', 0 for '3'; it does not tell bare answers "
        "apart"
    )


def test_a_wrong_answer_is_none_of_the_right_ones():
    _, rewards = describe_first([*prompts(["1", "2"], ["2"], ["3"])], exact, "?")
    assert rewards == "rewards: 1 for its reference answer '1', 0 for '3'"


def fails(text, row):
    raise RuntimeError("no network")


@pytest.mark.parametrize("answers", [(2, 3), (None, None), ({"target": [2]}, 3)])
def test_a_reward_that_fails_is_told(answers):
    """With an answer or without one; where there is no reward there is the prompt."""
    assert len(describe_first([*prompts(*answers)], supplied, "?")) == 1
    _, told = describe_first([*prompts(*answers)], UserReward(fails, "mine"), "?")
    assert told.startswith("warning: on a bare answer the reward fails: mine: failed on")


IM = "<|im_start|>user\n7<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("problem", "chat", "lines"),
    [
        ("7 < 8 | 9 > 1, [3]", True, []),
        (IM, True, ["set prompts.chat = f"]),
        ("<|im_start|>user\n7<|im_end|>\n", False, ["given as they are"]),
        ("[INST] 7 [/INST]", True, ["([INST]); set"]),
        ("<｜User｜>7", True, ["(<｜User｜>); set"]),
        ([{"role": "user", "content": "7"}], True, []),
        ([{"role": "user", "content": "<start_of_turn>7"}], True, ["(<start_of_t"]),
    ],
)
def test_prompts_that_hold_the_template_are_told(problem, chat, lines):
    messages = problem if isinstance(problem, list) else None
    two = [
        Prompt("a", "7", "", {"problem": problem}, messages),
        Prompt("b", "x", "", {"problem": "x"}),
    ]
    _, *said = describe_first(two, supplied, "7", chat=chat)
    assert len(said) == len(lines)
    assert all(line in one for line, one in zip(lines, said, strict=True))
