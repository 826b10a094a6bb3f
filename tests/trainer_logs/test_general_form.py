"""The general form: a line for each completion, or for each group."""

import numpy as np
import pandas as pd
import pytest

from log_makers import groups_of, read, summarise, write_lines
from mse_lab.errors import InputError
from mse_lab.trainer_logs.general_form import check_columns, parse_columns
from mse_lab.trainer_logs.read_logs import read_log


def test_a_line_a_group(tmp_path):
    columns = read(tmp_path, groups_of([0, 1, 1], [0, 0])).columns
    assert columns.rewards["reward"].tolist() == [0, 1, 1, 0, 0]
    assert columns.group_N.tolist() == [0, 0, 0, 1, 1]
    assert list(columns.prompts) == ["p0", "p1"]


def test_two_lines_of_a_prompt_are_two_groups(tmp_path):
    lines = [{"prompt_id": "p", "rewards": [0, 1]}] * 2
    columns = read(tmp_path, lines).columns
    assert columns.group_N.tolist() == [0, 0, 1, 1]
    assert columns.prompt_N.tolist() == [0] * 4


def test_a_line_a_completion(tmp_path):
    line = {"prompt": "1 + 1", "reward": 1, "tokens": [5, 0], "step": 3, "truncated": False}
    columns = read(tmp_path, [line, line | {"step": 4, "reward": None}]).columns
    assert columns.group_N.tolist() == [0, 1]
    assert columns.length_N.tolist() == [2, 2]
    assert columns.truncated_N.tolist() == [0, 0]
    assert np.isnan(columns.rewards["reward"][1])


def test_the_completions_of_a_measurement_are_of_this_form(tmp_path):
    """Log-probabilities are sums there, and say nothing of single tokens."""
    line = {"prompt": "a", "pool": "reference", "text": "5", "reward": 1.0, "length": 2,
            "log_prob": -0.5, "log_probs": -0.5, "truncated": False}  # fmt: skip
    assert read(tmp_path, [line]).columns.length_N.tolist() == [2]


def test_rewards_by_function(tmp_path):
    lines = [{"prompt": "a", "rewards": {"right": 1, "brief": 0.5}}] * 2
    assert summarise(tmp_path, lines).groups.reward_N.tolist() == [1.5, 1.5]


def test_a_table_is_taken_apart(tmp_path):
    """Lists of prompts and completions beside the rewards: six groups of four."""
    table = {
        "prompt": [f"p{n // 4}" for n in range(24)],
        "completion": [f"{n}" for n in range(24)],
        "reward": [n % 2 for n in range(24)],
        "step": 3,
    }
    found = summarise(tmp_path, [table])
    assert found.groups.size_K.tolist() == [4] * 6
    assert found.groups.step_K.tolist() == [3] * 6


@pytest.mark.parametrize("key", ["prompt", "prompt_id"])
def test_prompts_for_each_reward_make_a_table_without_completions(tmp_path, key):
    """A chat is a list of messages, and a prompt's tokens one of numbers."""
    names = [n // 4 if key == "prompt_id" else f"p{n // 4}" for n in range(8)]
    found = summarise(
        tmp_path, [{key: names, "response": [*"abcdefgh"], "rewards": [0] * 8}]
    )
    assert found.groups.size_K.tolist() == [4, 4]
    for one in ([5, 6, 7, 8], [{"role": "user", "content": "1"}] * 4):
        groups = summarise(tmp_path, [{"prompt": one, "rewards": [0, 1, 1, 0]}]).groups
        assert groups.size_K.tolist() == [4]


def test_one_reward_in_a_list_is_that_of_its_completion(tmp_path):
    lines = [{"prompt": "a", "text": one, "rewards": [1.0]} for one in "xyz"]
    assert summarise(tmp_path, lines).groups.size_K.tolist() == [3]


MESSAGE = {"role": "assistant", "content": "abc"}


@pytest.mark.parametrize(
    "more",
    [
        *({"text": "abc"}, {"tokens": [5, 6, 0]}, {"response": "abc"}),
        *({"completion": [MESSAGE]}, {"completion_ids": [5, 6, 0]}),
    ],
)
def test_rewards_of_tokens_are_refused(tmp_path, more):
    with pytest.raises(InputError, match=r"line 1: 3 rewards beside one completion: give"):
        read(tmp_path, [{"prompt": "a", "rewards": [0, 0, 1]} | more])


def test_an_index_that_begins_anew_at_each_step_is_no_prompt(tmp_path):
    lines = [
        {"prompt_id": n // 2, "prompt": f"{step} + {n // 2}", "reward": n % 2, "step": step}
        for step in range(3)
        for n in range(8)
    ]
    found = summarise(tmp_path, lines)
    assert len(found.prompts) == 12
    assert found.groups.size_K.tolist() == [2] * 12
    of_texts = [line | {"prompt_id": str(line["prompt_id"])} for line in lines]
    assert len(summarise(tmp_path, of_texts).prompts) == 12
    groups = [line | {"rewards": [0, 1]} for line in lines[::2]]
    found = summarise(tmp_path, groups)
    assert len(found.prompts) == 12
    assert found.groups.size_K.tolist() == [2] * 12
    for line in lines:
        del line["prompt"]
    notes = " ".join(summarise(tmp_path, lines).notes)
    assert "The prompts are the numbers 0 to 3, all of them at every step" in notes
    for line in lines:
        line["prompt_id"] += 1
    notes = " ".join(summarise(tmp_path, lines).notes)
    assert "The prompts are the numbers 1 to 4, all of them at every step" in notes


def test_ids_of_a_csv_are_texts(tmp_path):
    """001 and 1 are two prompts, however far apart; numbers may be written as one likes."""
    path = tmp_path / "log.csv"
    rows = ["001,1,True", "1,0.50,False"] * 1500 + ["x,1e-05,True"]
    path.write_text("\n".join(["prompt_id,reward,truncated", *rows]))
    columns = read_log([path]).columns
    assert list(columns.prompts) == ["001", "1", "x"]
    assert columns.rewards["reward"][-3:].tolist() == [1.0, 0.5, 1e-05]
    assert columns.truncated_N[-3:].tolist() == [1, 0, 1]


def test_a_key_that_later_lines_lack_is_named(tmp_path):
    lines = [{"prompt": "a", "reward": 1}, {"prompt": "b"}]
    with pytest.raises(InputError, match=r"log.jsonl, line 2: reward is missing"):
        read(tmp_path, lines)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_columns_of_ones_own(tmp_path, suffix):
    frame = pd.DataFrame(
        {"q": ["a", "a", "b"], "exact": [1, 0, 1], "tidy": [0.5, 0.5, 0.0]}
    )
    path = tmp_path / f"log{suffix}"
    if suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    named = parse_columns("prompt=q,reward=exact,reward=tidy")
    for given in ([path], frame):
        columns = read_log(given, named).columns
        assert columns.rewards["exact"].tolist() == [1, 0, 1]
        assert columns.rewards["tidy"].tolist() == [0.5, 0.5, 0.0]
        assert columns.prompt_N.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("prompt=a", "without reward"),
        ("promt=a,reward=b", "did you mean prompt"),
        ("prompt=a,reward=b,completion=c", "'completion': did you mean text"),
        ("prompt=a,reward=", "name of one column"),
        ("prompt=a,prompt=b,reward=c", "name of one column"),
        ("", "known: |did you mean"),
    ],
)
def test_columns_that_are_refused(text, reason):
    with pytest.raises(InputError, match=reason):
        parse_columns(text)


def test_columns_in_python():
    assert check_columns({"prompt": "q", "reward": ["a", "b"]})["reward"] == ["a", "b"]


def test_a_column_that_is_not_there_is_named(tmp_path):
    path = write_lines(tmp_path / "log.jsonl", [{"q": "a", "r": 1}])
    with pytest.raises(InputError, match="score is missing; the record has q, r"):
        read_log([path], parse_columns("prompt=q,reward=score"))
