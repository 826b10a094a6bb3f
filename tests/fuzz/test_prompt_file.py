"""Prompts and supplied completions, lines or tables: read exactly, or refused in a line."""

import csv
import io
import json

import datasets
import numpy as np
import pytest
from fuzzing import CASES, answer_or_one_line, nested, spoil
from hypothesis import example, given
from hypothesis import strategies as st

from mse_lab.arrays import LARGEST
from mse_lab.config.schema import Prompts
from mse_lab.data.prompts import load_prompts
from mse_lab.data.rewards import exact, gsm8k, integer
from mse_lab.data.supplied_completions import lines_of
from mse_lab.errors import InputError
from mse_lab.records.plain_text import read_object
from mse_lab.records.rows import Rows

GOOD = '{"id": "p1", "problem": "1 + 1", "answer": 2, "category": "sums"}'
NASTY = [
    *("9" * 5000, "[" * 2000 + "]" * 2000, "[" * 80 + "]" * 80, "NaN", "-1e999", "1e400"),
    *('"\\ud800"', '"\\r"', '"a\\rb"', '"\\u0085"', '"\\u2028"', '"\\u0000"', '"\\u202e"'),
    *('"nan"', '"NA"', '"none"', '"001"', '"1e5"', '"true"', "null", "true", "{}", "[]"),
    *('"a,\\"b"', '" a"', '" "', '"#### 5"', "\r", "\x85", "\u2028", "\n", "\\", "\ufeff"),
]  # fmt: skip

values = nested()
raw_values = st.sampled_from(NASTY) | values.map(json.dumps)
lists = st.lists(values, max_size=4).map(json.dumps)
keys = st.sampled_from(["prompt", "tokens", "text", "log_probs", "pool", "reward"])
fields = st.sampled_from(["id", "problem", "answer", "category", "prompt", "x"])


def json_object(pairs):
    inside = ", ".join(f'"{key}": {value}' for key, value in pairs)
    return f"{{{inside}}}".encode("utf-8", "surrogatepass")


def read_prompts(folder, content, name="mine.jsonl"):
    path = folder / name
    path.write_bytes(content)
    config = Prompts.model_validate({"source": str(path), "template": "none"})
    return answer_or_one_line(load_prompts, config, folder)


def judge(prompts):
    """What was read can be hashed, rewarded, and written to a table and back."""
    for prompt in prompts or []:
        json.dumps(dict(prompt.record)).encode()
        prompt.text.encode()
        for reward in (integer, gsm8k, exact):
            try:
                assert reward("1 or 2", prompt.record) in (0, 1)
            except ValueError as error:
                InputError(str(error))
    rows = [[prompt.id, prompt.category, "end"] for prompt in prompts or []]
    table = io.StringIO(newline="")
    csv.writer(table, lineterminator="\n").writerows(rows)
    lines = table.getvalue()
    assert len(lines.splitlines()) == len(rows)
    assert list(csv.reader(io.StringIO(lines, newline=""))) == rows


@given(st.lists(st.tuples(fields, raw_values), max_size=4))
@example([("id", '"a\\rb"')])
@example([("category", "0")])
@CASES
def test_any_value_in_any_field(tmp_path, changes):
    line = json_object([("problem", '"1"'), ("answer", "2"), *changes])
    judge(read_prompts(tmp_path, line))


@given(st.data())
@CASES
def test_a_damaged_file(tmp_path, data):
    text = "\n".join(GOOD.replace("p1", f"p{row}") for row in range(3))
    nasty = [one.encode("utf-8", "surrogatepass") for one in NASTY]
    content = spoil(data, text.encode(), nasty, st.binary(max_size=20))
    judge(read_prompts(tmp_path, content))


TABLES = [".parquet", ".csv"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """One set in each format of a table, as bytes."""
    folder = tmp_path_factory.mktemp("sets")
    rows = datasets.Dataset.from_list(
        [{"problem": f"{row} + 1", "answer": row + 1, "category": "a"} for row in range(3)]
    )
    rows.to_parquet(folder / "set.parquet")
    rows.to_csv(folder / "set.csv")
    return {suffix: (folder / f"set{suffix}").read_bytes() for suffix in TABLES}


@given(st.sampled_from(TABLES), st.data())
@CASES
def test_a_damaged_table(tmp_path_factory, tables, suffix, data):
    """Cut, or with some bytes overwritten."""
    folder = tmp_path_factory.mktemp("set")
    spoilt = spoil(data, tables[suffix], [], st.binary(max_size=20))
    # A cache for each, else the library gives what it has prepared before.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "cache")
        read_prompts(folder, spoilt, f"set{suffix}")


@given(st.lists(st.tuples(keys, raw_values | lists), max_size=5))
@example([("pool", "[]")])
@example([("reward", "9" * 400)])
@example([("log_probs", "[1e308, 1e308]")])
@CASES
def test_any_supplied_line(changes):
    line = json_object([("prompt", '"a"'), ("tokens", "[1]"), *changes])
    values = read_object(line)
    if isinstance(values, str):
        return
    columns = {name: [value] for name, value in values.items()}
    found = answer_or_one_line(lambda: lines_of(Rows("line", "line", [1], columns)))
    if found is not None:
        [found] = found
        assert found.token_ids is not None or found.completion is not None
        assert not np.isinf(found.policy_log_prob)
        assert found.reward is None or abs(found.reward) <= LARGEST
