"""Trainers' logs, of any form: summarised, or refused in one line."""

import json
import math

import pytest
from fuzzing import CASES
from hypothesis import example, given
from hypothesis import strategies as st
from one_line import answer_or_one_line

from mse_lab.api.rollouts import rollouts
from mse_lab.report.rollouts_report import rollouts_text
from mse_lab.trainer_logs import forecast

ROWS = {
    "plain": {"prompt_id": "a", "reward": 1, "step": 1, "text": "b", "length": 3},
    "rewards": {"prompt_id": "a", "rewards": [0, 1]},
    "verl": {"input": "a", "output": "b", "score": 1.0, "step": 1, "uid": "s_1_0"},
    "open-instruct": {
        "step": 1, "prompt_idx": 0, "prompt_tokens": [1], "response_tokens": [2, 0],
        "reward": 1.0, "finish_reason": "stop", "logprobs": [-1.0, -1.0],
    },
    "nemo": {
        "content": ["a"], "rewards": [1.0], "input_lengths": [3], "token_ids": [[1, 2, 0]],
        "token_loss_mask": [[0, 1, 1]], "generation_logprobs": [[0, -1, -1]],
        "prev_logprobs": [[0, -1, -1]],
    },
    "areal": {
        "task_id": 1, "tail_version": 1, "prompt": "a", "completion": "b", "reward": 1,
        "seqlen": 5, "prompt_len": 2,
    },
    "trace": {
        "task": {"key": "a"}, "rewards": {"r": {"score": 1, "weight": 1}},
        "nodes": [{"parent": None, "token_ids": [1, 2], "mask": [False, True],
                   "logprobs": [-1.0]}],
        "info": {"group_id": "g"}, "run": {"step": 1}, "calls": [{"finish_reason": "stop"}],
    },
    "export": {
        "token_ids": [1, 2], "loss_mask": [False, True], "rewards": [1.0, 1.0],
        "inference_logprobs": [0.0, -1.0], "trainer_logprobs": [0.0, -1.0],
    },
    "trl": {"step": 1, "prompt": "a", "completion": "b", "advantage": 0.0, "right": 1.0},
}  # fmt: skip
KEYS = sorted({key for row in ROWS.values() for key in row})

texts = st.text(st.characters(exclude_categories=()), max_size=12)
numbers = st.integers() | st.floats() | st.sampled_from([0, 1, -1, 1e308, 2**63, 10**400])
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module", autouse=True)
def few_draws():
    """The model's interval from few draws: the cases are many."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(forecast, "DRAWS", 3)
        yield


# What is put in the place of a value, and of an entry of a list.
changes = st.lists(st.tuples(st.sampled_from(KEYS), values), min_size=1, max_size=3)


def summarise(path):
    found = rollouts(path)
    json.dumps(found.summary, allow_nan=False).encode()
    rollouts_text(found).encode()


def judge(folder, lines):
    path = folder / "log.jsonl"
    raw = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_bytes(f"{raw}\n".encode("utf-8", "surrogatepass"))
    answer_or_one_line(summarise, path)


@given(st.sampled_from(sorted(ROWS)), changes, st.integers(1, 4))
@example("plain", [("reward", math.nan)], 2)
@example("plain", [("step", 10**400)], 1)
@example("rewards", [("rewards", [])], 1)
@example("rewards", [("rewards", {"a": None})], 2)
@example("verl", [("score", "good")], 1)
@example("plain", [("text", "\ud800")], 1)
@example("plain", [("prompt_id", "\ud800")], 1)
@example("open-instruct", [("logprobs", [None, 1e308])], 3)
@example("export", [("trainer_logprobs", [0, 1e308])], 3)
@example("plain", [("reward", 1e299), ("length", -5)], 2)
@example("trace", [("calls", [None]), ("nodes", [1])], 1)
@CASES
def test_any_value_in_any_form(tmp_path, form, changed, copies):
    row = ROWS[form]
    judge(tmp_path, [row, *[row | dict(changed)] * copies, row])


@given(st.data())
@CASES
def test_a_damaged_file(tmp_path, data):
    text = "\n".join([json.dumps(ROWS[data.draw(st.sampled_from(sorted(ROWS)))])] * 3)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    judge(tmp_path, [text[:start] + data.draw(texts) + text[end:]])


@given(st.lists(st.lists(numbers, max_size=5), min_size=1, max_size=5))
@example([[1e299, -1e299]])
@example([[5e-324, 0.0], [1e-300]])
@CASES
def test_any_rewards(tmp_path, groups):
    judge(
        tmp_path,
        [{"prompt_id": n, "rewards": list(rewards)} for n, rewards in enumerate(groups)],
    )


@given(st.binary(max_size=60), st.sampled_from([".jsonl", ".parquet", ".csv"]))
@example(b"PAR1", ".parquet")
@example(b"prompt,reward\na,1\n", ".csv")
@CASES
def test_any_bytes(tmp_path, content, suffix):
    path = tmp_path / f"log{suffix}"
    path.write_bytes(content)
    answer_or_one_line(summarise, path)
