"""Logs of other trainers: the words of the page read a line of each."""

import re
from pathlib import Path

import pytest

from log_makers import check, write_lines
from mse_lab.logs import forms

MESSAGES = [{"role": "user", "content": "Begin the game."}]

# Lines of other trainers, whose words are those of the page: two groups of two.
OTHERS = {
    "verifiers": lambda g, k: {
        "example_id": g, "prompt": MESSAGES, "completion": MESSAGES, "reward": k,
            "task": "t",
    },
    "open-instruct": lambda g, k: {
        "step": 1, "sample_idx": k, "prompt_idx": g, "prompt_tokens": [1], "reward": k,
        "response_tokens": [2, k], "finish_reason": "stop", "logprobs": [-1.0, -1.0],
    },
    "prime-rl": lambda g, k: {
        "task": {"key": "a"}, "rewards": {"NAME": {"score": k, "weight": 1}}, "nodes": [],
        "info": {"group_id": f"g{g}"}, "run": {"step": 1},
    },
    "AReaL": lambda g, k: {
        "task_id": g, "sample_idx": k, "tail_version": 1 + k, "prompt": "a", "reward": k,
        "completion": "b",
    },
    "NeMo-RL": lambda g, k: {
        "content": ["a"], "rewards": [k], "input_lengths": [3], "token_ids": [[1, 2]],
        "token_loss_mask": [[0, 1]],
    },
    "slime": lambda g, k: {
        "group_index": g, "index": k, "prompt": "a", "response": "b", "tokens": [1, 2, 3],
        "response_length": 1, "reward": k, "status": "truncated", "loss_mask": [1],
    },
}  # fmt: skip


@pytest.mark.parametrize("trainer", OTHERS)
def test_the_words_of_the_page_read_other_trainers(tmp_path, trainer):
    page = Path(forms.__file__).with_name("README.md").read_text()
    words = re.search(rf"^\|{trainer},.*\|`(.*)`\|$", page, re.MULTILINE)[1].split()
    made = [OTHERS[trainer](g, k) for g in (0, 1) for k in (0, 1)]
    size = 2 if "--group-size" in words else None
    path = write_lines(tmp_path / "log.jsonl", made)
    found = check(path, {"groups": 2}, words[1], group_size=size)
    assert found.groups.completions["reward"].tolist() == [0, 1, 0, 1]
