"""Reward functions of every form: called as their trainer calls them, or one line."""

import json
import math
import random
import subprocess
import sys
from contextlib import nullcontext
from itertools import count

import numpy as np
import pytest
from fuzzing import CASES
from hypothesis import given
from hypothesis import strategies as st

from mse_lab.data.prompts import Prompt
from mse_lab.data.reward_functions import ALONE, LARGEST_CALL, UserReward
from mse_lab.data.rewards import reward_completions
from mse_lab.errors import InputError

ROW = {"id": "q7", "problem": "1 + 1", "answer": "2", "level": [3]}
CHAT = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1 + 1"}]


def graded(function, *texts, chat=False, ids=None, row=ROW, **more):
    reward = UserReward(function, "reward = mine:reward", chat=chat, **more)
    turns = row["problem"] if isinstance(row.get("problem"), list) else None
    prompt = Prompt("q7", "1 + 1", "", row, turns)
    return reward_completions(reward, texts, prompt, ids).values_N.tolist()


def right(completions, answer):
    return [float(text == one) for text, one in zip(completions, answer, strict=True)]


def of_completions(completions, answer, **columns):
    assert columns["prompts"] == ["1 + 1"] * len(completions)
    assert columns["level"] == [[3]] * len(completions)
    columns["level"][0].clear()  # Each has its own.
    columns["log_metric"]("share", 0.5)
    columns["log_extra"]("level", columns["level"])
    print("checking", len(completions))
    return right(completions, answer)


def of_arrays(prompts, completions):
    return np.array([len(one) for one in completions])


def of_messages(completions, prompts, **columns):
    assert prompts == [[CHAT[1]]] * len(completions)
    return [float(one[0] == {"role": "assistant", "content": "2"}) for one in completions]


def of_ids(prompts, completions, completion_ids, answer, trainer_state=None):
    assert trainer_state is None
    return [
        -len(ids) / 100 + one
        for ids, one in zip(completion_ids, right(completions, answer), strict=True)
    ]


class OfAnObject:
    def __call__(self, completions, **columns):
        return [1.0] * len(completions)


async def awaited(completions, answer, **columns):
    return right(completions, answer)


async def awaited_one(text, row):
    return float(text == row["answer"])


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": float(solution_str == ground_truth), "from": data_source}


async def compute_score_kwargs(solution_str, ground_truth, **more):
    return float(solution_str == ground_truth) + more["extra_info"]["index"]


OF_VERL = {
    **ROW,
    "data_source": "sums",
    "extra_info": {"index": 0},
    "reward_model": {"ground_truth": "2"},
    "answer": "3",
}


@pytest.mark.parametrize(
    ("function", "more", "expected"),
    [
        (of_completions, {}, [1, 0, 1]),
        (of_arrays, {}, [1, 1, 1]),
        (of_messages, {"chat": True}, [1, 0, 1]),
        (of_ids, {"ids": [np.array([5]), np.array([6, 7]), [5]]}, [0.99, -0.02, 0.99]),
        (OfAnObject(), {}, [1, 1, 1]),
        (awaited, {}, [1, 0, 1]),
        (awaited_one, {}, [1, 0, 1]),
        (lambda text, row: row["level"][0] * len(text), {}, [3, 3, 3]),
        (lambda *both: len(both), {}, [2, 2, 2]),
        (compute_score, {"row": {**ROW, "data_source": "sums"}}, [1, 0, 1]),
        (compute_score, {"row": OF_VERL}, [1, 0, 1]),
        (compute_score_kwargs, {"row": OF_VERL}, [1, 0, 1]),
    ],
)  # fmt: skip
def test_each_form_is_called_as_its_trainer_calls_it(function, more, expected):
    assert graded(function, "2", "3", "2", **more) == pytest.approx(expected)
    assert ROW["level"] == [3]


def test_a_chat_keeps_its_turns():
    def reward(prompts, completions):
        assert prompts == [CHAT] * len(prompts)
        return [1.0] * len(prompts)

    assert graded(reward, "a", chat=True, row={"id": "q7", "problem": CHAT}) == [1]


def test_a_training_gives_its_columns_and_its_state():
    """Those of the data set, though they be called as ours are."""
    seen = {}

    def reward(completions, **columns):
        seen.update(columns, completions=completions)
        return [1.0] * len(completions)

    row = {"prompt": "1 + 1", "completion": "1", "problem": "mine", "answer": 2}
    graded(reward, "2", row=row, ids=[[50]], trainer_state="state")
    logs = {seen.pop(name) for name in ("log_extra", "log_metric")}
    assert all(log("a", 1.0) is None for log in logs)
    assert seen == {
        **{"prompts": ["1 + 1"], "completions": ["2"], "completion_ids": [[50]]},
        **{"problem": ["mine"], "answer": [2], "trainer_state": "state"},
    }


def test_how_often_a_function_is_called():
    """TRL's for some completions at once; ours for each, for a judge may be random."""
    calls, texts = [], ["a", "b", "a"] * 30
    graded(lambda completions: calls.append(completions) or [1] * len(completions), *texts)
    assert calls == [texts[:LARGEST_CALL], texts[LARGEST_CALL:]]
    calls.clear()
    graded(lambda text, row: calls.append(text) or 1.0, *texts)
    assert calls == texts
    ids = [[at] for at in range(len(texts))]
    found = graded(
        lambda completions, completion_ids: [one for (one,) in completion_ids],
        *texts,
        ids=ids,
    )
    assert found == [*range(len(texts))]


REFUSED = {
    **{f"{size:g}": (lambda text, row, size=size: size, f"q7: gave {size:g}; it must be a")
        for size in (math.nan, math.inf, -1e31)},
    "one argument": (lambda text: 1.0, r"takes (text); write (text, row) -> float"),
    "three": (lambda text, row, level: 1.0, "takes (text, row, level); write"),
    "too few": (lambda completions: [], "q7: ValueError: it gave 0 rewards for 2"),
    "None": (lambda completions: [None, 1], "q7: it gave None, by which TRL leaves"),
    "None of ours": (lambda text, row: None, "q7: it gave None, by which TRL leaves"),
    "no ids": (lambda completions, completion_ids: [0], "'completion_ids', not given"),
    "a state": (lambda completions, trainer_state, **more: [0], "'trainer_state', not"),
    "a column": (lambda completions, solution: [0], "argument: 'solution', not given here"),
    "a column inside": (lambda completions, **more: more["x"], "KeyError: 'x'"),
    "verl's column": (compute_score, "argument: 'data_source', not given here"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_another_form_is_one_line(case):
    function, line = REFUSED[case]
    with pytest.raises(InputError) as caught:
        graded(function, "a", "b")
    assert line in str(caught.value)


def test_one_that_wants_texts_is_told_of_the_chat():
    with pytest.raises(InputError, match=r"given messages as prompts.chat is true: failed"):
        graded(lambda completions: [int(one) for one in completions], "2", chat=True)


def between(sizes):
    low, high = min(sizes), max(sizes)
    return [0.5 - (size - low) / (high - low) if high > low else 0.0 for size in sizes]


TURN, COIN = count(), random.Random(0)
# Rewards of a call's completions by their lengths, and whether they depend on one another.
OF_A_CALL = {
    "between the extremes": (between, True),
    "ranks": (lambda sizes: [float(sorted(sizes).index(size)) for size in sizes], True),
    "centred": (lambda sizes: [size - sum(sizes) / len(sizes) for size in sizes], True),
    "the longest": (lambda sizes: [float(size == max(sizes)) for size in sizes], True),
    "shares": (lambda sizes: [size / (1 + sum(sizes)) for size in sizes], True),
    "repeated": (lambda sizes: [float(sizes.count(size) > 1) for size in sizes], True),
    "novelty": (
        lambda sizes: [float(s not in sizes[:n]) for n, s in enumerate(sizes)],
        True,
    ),
    "its own": (lambda sizes: [size / 3 for size in sizes], False),
    "a threshold": (lambda sizes: [float(size > 2) for size in sizes], False),
    "noise": (lambda sizes: [size + next(TURN) / 7 for size in sizes], False),
    "a coin": (lambda sizes: [float(COIN.random() < 0.5) for _ in sizes], False),
}
TEXTS = st.lists(st.text("a", max_size=ALONE - 1), min_size=2, max_size=LARGEST_CALL)


@given(st.sampled_from([*OF_A_CALL]), TEXTS)
@CASES
def test_a_reward_that_ranks_a_call_is_refused(name, texts):
    """Where it gives different rewards: only there can it do harm."""
    of_sizes, relative = OF_A_CALL[name]
    sizes = [len(text) for text in texts]
    together, alone = of_sizes(sizes), [of_sizes([size])[0] for size in sizes]
    refused = relative and len({*together}) > 1 and together != alone
    expected = pytest.raises(InputError, match="depends on the other") if refused else None
    with expected or nullcontext():
        graded(lambda completions: of_sizes([len(text) for text in completions]), *texts)


def test_a_rank_with_some_noise_is_refused():
    def ranked(completions):
        sizes = sorted(map(len, completions))
        return [sizes.index(len(one)) + COIN.gauss(0, 1e-6) for one in completions]

    with pytest.raises(InputError, match="depends on the other completions of a call"):
        graded(ranked, *["a", "bb", "ccc"] * 9)


PRINTS = """\
import subprocess
print("imported")
def reward(completions, answer, **columns):
    print("checking", len(completions))
    subprocess.run(["echo", "a child"])
    return [float(len(text) % 2) for text in completions]
"""


# A command that only rewards completions, for which no torch is imported.
START = """
import json
from mse_lab.__main__ import start
from mse_lab.commands import cli
from mse_lab.data.prompts import Prompt
from mse_lab.data.rewards import load_reward, reward_completions

def graded():
    prompt = Prompt(id="q7", text="", category="", record={"answer": "2"})
    found = reward_completions(load_reward("prints:reward"), ["a", "bb"], prompt)
    print(json.dumps(found.values_N.tolist()))

cli.main = graded
start()
"""


def test_json_is_all_that_stands_on_standard_output(tmp_path):
    """What a reward prints, or a process that it starts, goes to the screen."""
    (tmp_path / "prints.py").write_text(PRINTS)
    command = [sys.executable, "-c", START, "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [1.0, 0.0]
    for words in ("imported", "checking", "a child"):
        assert words in done.stderr
