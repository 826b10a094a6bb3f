"""A trainer's rows as prompts, and rewards that get them as its trainer gives them."""

import pytest

from mse_lab.data.prompts import choose_prompts
from mse_lab.data.reward_functions import UserReward
from mse_lab.data.rewards import reward_completions
from mse_lab.errors import InputError

ROWS = [{"prompt": f"{at} + 1 =", "problem": "mine", "answer": at + 1} for at in range(9)]
CHAT = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1 + 1"}]


def test_the_rows_are_the_same_every_time_and_no_first_ones():
    chosen = choose_prompts(ROWS, 4, seed=0)
    assert chosen == choose_prompts(ROWS, 4, seed=0)
    assert all(one.record == ROWS[int(one.id)] for one in chosen)
    places = {
        tuple(one.id for one in choose_prompts(ROWS, 4, seed=seed)) for seed in range(20)
    }
    assert len(places) > 10
    assert [one.id for one in choose_prompts(ROWS, 99, seed=0)] == [*map(str, range(9))]


def test_rows_are_given_as_everywhere_else():
    one, other = choose_prompts(["1 + 1 =", {"problem": "2 + 2 =", "answer": 4}], 3, seed=0)
    assert (one.text, other.text, other.record["answer"]) == ("1 + 1 =", "2 + 2 =", 4)
    (chat,) = choose_prompts([{"prompt": CHAT}], 3, seed=0)
    assert chat.turns == CHAT


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [{"question": "1", "answer": 2}],
            r"prompts\[0\]: .* column prompt; it has question",
        ),
        ([{"prompt": ""}], "no text or messages"),
        ([{"prompt": "1"}, {"prompt": CHAT}], "texts beside chats"),
        ([], "prompts: none"),
        (iter(ROWS), "of known length"),
        ([3], "a list of mappings"),
    ],
)
def test_what_is_no_training_set(rows, words):
    with pytest.raises(InputError, match=words):
        choose_prompts(rows, 4, seed=0)


def rewards(reward, row, *texts):
    (prompt,) = choose_prompts([row], 1, seed=0)
    chat = prompt.chat is not None
    guarded = UserReward(reward, "reward", chat=chat, trainer_state="state")
    ids = [[ord(one) for one in text] for text in texts]
    return reward_completions(guarded, texts, prompt, ids).values_N.tolist()


def test_a_reward_of_trls_form_gets_the_columns():
    """Those of the data set, though they be called as ours are."""
    seen = {}

    def reward(completions, problem, **columns):
        seen.update(columns, problem=problem, completions=completions)
        columns["log_metric"]("a", 1.0)
        return [0.5 + (text == "1") / 2 for text in completions]

    assert rewards(reward, ROWS[0] | {"completion": "1"}, "2", "1") == [0.5, 1.0]
    assert (seen["completions"], seen["completion_ids"]) == (["1"], [[ord("1")]])
    assert (seen["problem"], seen["prompts"]) == (["mine"], ["0 + 1 ="])
    assert (seen["answer"], seen["trainer_state"]) == ([1], "state")
    assert not {"prompt", "completion"} & {*seen}
