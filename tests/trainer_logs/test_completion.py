"""Values of a record: read exactly, or refused with the file, the line, and the key."""

import math

import pytest

from mse_lab.errors import InputError
from mse_lab.trainer_logs.completion import Record, RecordPosition

HERE = RecordPosition("logs/1.jsonl", "line", 3)
EMPTY = Record({}, HERE)


@pytest.mark.parametrize(
    ("value", "reward"), [(1, 1.0), (0.5, 0.5), (True, 1.0), (None, math.nan)]
)
def test_rewards(value, reward):
    assert EMPTY.reward_of(value, "score") == pytest.approx(reward, nan_ok=True)


@pytest.mark.parametrize("value", ["good", [1], math.inf, -math.inf, 10**400, 1e26])
def test_a_reward_that_is_no_number_is_refused_by_its_place(value):
    with pytest.raises(InputError, match=r"^logs/1.jsonl, line 3: score = .* give a "):
        EMPTY.reward_of(value, "score")


def test_a_missing_key_is_named():
    with pytest.raises(InputError, match=r"^logs/1.jsonl, line 3: score is missing"):
        EMPTY.like({"input": "a"}).field("score")


@pytest.mark.parametrize("value", [None, math.nan])
def test_what_may_be_missing(value):
    record = Record({"step": value, "tokens": value}, HERE)
    assert record.whole_number("step") is None
    assert record.token_ids("tokens") is None


def test_whole_numbers_of_a_table_are_floats():
    assert Record({"step": 3.0}, HERE).whole_number("step") == 3


@pytest.mark.parametrize(
    ("read", "value"),
    [
        ("whole_number", 1.5),
        ("whole_number", -1),
        ("whole_number", "one"),
        ("whole_number", math.inf),
        ("whole_number", 10**400),
        ("numbers", ["a"]),
        ("numbers", 3),
        ("token_ids", [1.5]),
        ("token_ids", [True]),
        ("token_ids", [2**70]),
        ("token_ids", [3, -(2**63)]),
    ],
)
def test_what_is_refused(read, value):
    with pytest.raises(InputError, match="line 3: key = "):
        getattr(Record({"key": value}, HERE), read)("key")


def test_names_of_prompts():
    assert EMPTY.name_of("a", "prompt") == "a"
    assert EMPTY.name_of(7, "prompt") == "7"
    assert EMPTY.name_of([{"role": "user"}], "prompt") == "[{'role': 'user'}]"
    with pytest.raises(InputError, match="prompt = None"):
        EMPTY.name_of(None, "prompt")
