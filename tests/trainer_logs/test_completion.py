"""Values of a record: read exactly, or refused with the file, the line, and the key."""

import math

import pytest

from mse_lab.errors import InputError
from mse_lab.trainer_logs.completion import (
    Record,
    RecordPosition,
    field,
    name_of,
    numbers_of,
    reward_of,
    token_ids,
    whole_number,
)

HERE = RecordPosition("logs/1.jsonl", "line", 3)


@pytest.mark.parametrize(
    ("value", "reward"), [(1, 1.0), (0.5, 0.5), (True, 1.0), (None, math.nan)]
)
def test_rewards(value, reward):
    assert reward_of(value, "score", HERE) == pytest.approx(reward, nan_ok=True)


@pytest.mark.parametrize("value", ["good", [1], math.inf, -math.inf, 10**400, 1e26])
def test_a_reward_that_is_no_number_is_refused_by_its_place(value):
    with pytest.raises(InputError, match=r"^logs/1.jsonl, line 3: score = .* give a "):
        reward_of(value, "score", HERE)


def test_a_missing_key_is_named():
    with pytest.raises(InputError, match=r"^logs/1.jsonl, line 3: score is missing"):
        field(Record({"input": "a"}, HERE), "score")


@pytest.mark.parametrize("value", [None, math.nan])
def test_what_may_be_missing(value):
    record = Record({"step": value, "tokens": value}, HERE)
    assert whole_number(record, "step") is None
    assert token_ids(record, "tokens") is None


def test_whole_numbers_of_a_table_are_floats():
    assert whole_number(Record({"step": 3.0}, HERE), "step") == 3


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (whole_number, 1.5),
        (whole_number, -1),
        (whole_number, "one"),
        (whole_number, math.inf),
        (whole_number, 10**400),
        (numbers_of, ["a"]),
        (numbers_of, 3),
        (token_ids, [1.5]),
        (token_ids, [True]),
    ],
)
def test_what_is_refused(read, value):
    with pytest.raises(InputError, match="line 3: key = "):
        read(Record({"key": value}, HERE), "key")


def test_names_of_prompts():
    assert name_of("a", "prompt", HERE) == "a"
    assert name_of(7, "prompt", HERE) == "7"
    assert name_of([{"role": "user"}], "prompt", HERE) == "[{'role': 'user'}]"
    with pytest.raises(InputError, match="prompt = None"):
        name_of(None, "prompt", HERE)
