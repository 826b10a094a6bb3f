"""A trainer's rows and rewards, measured as a prompt set of ours."""

import numpy as np
import pytest

from mse_lab.data.prompts import Prompt
from mse_lab.data.reward_functions import UserReward
from mse_lab.data.rewards import reward_completions
from mse_lab.data.trainer_prompts import as_prompt_set, as_row_reward, choose_rows
from mse_lab.errors import InputError

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
    ids, prompt = [[ord(one) for one in text] for text in texts], Prompt("0", "", "", row)
    return reward_completions(guarded, texts, prompt, ids).values_N.tolist()


def test_a_reward_of_trls_form_gets_the_columns():
    seen = {}

    def reward(completions, problem, **columns):
        seen.update(columns, problem=problem, completions=completions)
        columns["log_metric"]("a", 1.0)
        return [0.5 + (text == "1") / 2 for text in completions]

    (row,) = as_prompt_set({0: ROWS[0]}, None)
    assert rewards(reward, row, "2", "1", state="state") == [0.5, 1.0]
    assert (seen["completions"], seen["completion_ids"]) == (["1"], [[ord("1")]])
    assert (seen["problem"], seen["prompts"]) == (["mine"], ["0 + 1 ="])
    assert seen["answer"] == [1]
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
