"""A trainer's rows and rewards, measured as a prompt set of ours."""

import numpy as np
import pytest

from mse_lab.errors import InputError
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.rewards import UserReward, reward_completions
from mse_lab.probe.trainer_prompts import as_prompt_set, as_row_reward, choose_rows

ROWS = [{"prompt": f"{at} + 1 =", "problem": "mine", "answer": at + 1} for at in range(9)]
CHAT = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1 + 1"}]


class Tokenizer:
    """One that begins every text with a token of its own, as Llama's does."""

    bos_token = "<s>"

    def __init__(self, adds=True):
        self.adds = adds

    def apply_chat_template(self, messages, **options):
        """Render with the bos, as templates do; options are shown."""
        words = " ".join(one["content"] for one in messages)
        return f"<s>{words}{options.get('thinking', '')}"

    def __call__(self, text, *, add_special_tokens=True):
        """Give the characters' codes after the bos; the bos is one token, 1."""
        ids = [1] * text.count("<s>") + [ord(one) for one in text.replace("<s>", "")]
        added = [1] if add_special_tokens and self.adds else []
        return type("Encoded", (), {"input_ids": added + ids})


def test_the_rows_are_the_same_every_time_and_no_first_ones():
    chosen = choose_rows(ROWS, 4, seed=0)
    assert chosen == choose_rows(ROWS, 4, seed=0)
    assert all(chosen[place] == ROWS[place] for place in chosen)
    assert len({tuple(choose_rows(ROWS, 4, seed=seed)) for seed in range(20)}) > 10
    assert list(choose_rows(ROWS, 99, seed=0)) == list(range(9))


def test_rows_are_given_as_everywhere_else():
    given = ["1 + 1 =", {"problem": "2 + 2 =", "answer": 4}, {"prompt": CHAT}]
    chosen = choose_rows(given, 3, seed=0)
    assert [chosen[at]["prompt"] for at in range(3)] == ["1 + 1 =", "2 + 2 =", CHAT]
    assert chosen[1]["answer"] == 4


@pytest.mark.parametrize(
    ("prompts", "words"),
    [
        (
            [{"question": "1", "answer": 2}],
            r"prompts\[0\]: .* column prompt; it has question",
        ),
        ([{"prompt": ""}], "no text or messages"),
        (iter(ROWS), "of known length"),
        ([3], "a list of mappings"),
    ],
)
def test_what_is_no_training_set(prompts, words):
    with pytest.raises(InputError, match=words):
        choose_rows(prompts, 4, seed=0)


@pytest.mark.parametrize("adds", [True, False])
def test_a_chat_has_the_tokens_of_the_trainer(adds):
    tokenizer = Tokenizer(adds)
    (row,) = as_prompt_set({3: {"prompt": CHAT}}, tokenizer, {"thinking": "!"})
    assert tokenizer(row["problem"]).input_ids == [1, *map(ord, "Add. 1 + 1!")]
    assert row["id"] == "3"


def rewards(reward, row, *texts, state=None):
    guarded = UserReward(as_row_reward(reward, state), "reward")
    return reward_completions(guarded, texts, Prompt("0", "", "", row)).values_N.tolist()


def test_a_reward_of_trls_form_gets_the_columns():
    seen = {}

    def reward(completions, problem, **columns):
        seen.update(columns, problem=problem, completions=completions)
        columns["log_metric"]("a", 1.0)
        return [0.5, 1.0]

    (row,) = as_prompt_set({0: ROWS[0]}, None)
    assert rewards(reward, row, "2", "1", state="state") == [0.5, 1.0]
    assert seen["completions"] == ["2", "1"]
    assert seen["problem"] == ["mine"] * 2
    assert seen["prompts"] == ["0 + 1 ="] * 2
    assert seen["answer"] == [1] * 2
    assert seen["trainer_state"] == "state"
    assert "prompt" not in seen


def test_a_reward_of_a_chat_gets_messages():
    (row,) = as_prompt_set({0: {"prompt": CHAT}}, Tokenizer())

    def reward(completions, prompts):
        assert prompts == [CHAT]
        assert completions == [[{"role": "assistant", "content": "2"}]]
        return np.ones(1)

    assert rewards(reward, row, "2") == [1]


def test_a_reward_of_text_and_row_gets_its_own_row():
    (row,) = as_prompt_set({1: ROWS[1]}, None)
    reward = as_row_reward(
        lambda text, row: text == str(row["answer"]) and row["problem"], 0
    )
    assert reward("2", row) == "mine"


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        (lambda completions, solution: [0.0], "solution"),
        (lambda completions, **columns: [columns["solution"]], "KeyError: 'solution'"),
        (lambda completions, **columns: [0.0, 1.0], "2 rewards for 1 completions"),
        (lambda completions, **columns: [None], "TypeError"),
    ],
)
def test_a_reward_that_fails_is_one_line(reward, words):
    (row,) = as_prompt_set({0: ROWS[0]}, None)
    with pytest.raises(InputError, match=words):
        UserReward(as_row_reward(reward, None), "reward")("2", row)


ROW = {"id": "q7", "problem": "1 + 1", "answer": "2", "level": 3}
PROMPT = Prompt(id="q7", text="1 + 1 =", category="", record=ROW)


def graded(function, *texts, chat=False):
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
    assert graded(of_completions, "2", "3", "2") == [1, 0, 1]
    assert graded(without_kwargs, "", "ab") == [0, 2]
    assert graded(Callable(), "a") == [1]
    assert graded(of_messages, "2", "3", chat=True) == [1, 0]


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
    assert graded(lambda text, row: calls.append(text) or 1.0, "a", "b", "a") == [1, 1, 1]
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
        graded(lambda completions: [int(one) for one in completions], "2", chat=True)


def test_ours_is_called_with_a_text_and_a_row():
    assert graded(lambda text, row: row["level"] * len(text), "ab") == [6]
    assert graded(lambda *both: len(both), "ab") == [2]


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
        graded(function, "a")
