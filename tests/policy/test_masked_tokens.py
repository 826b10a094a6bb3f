"""Completions with a tool's tokens between the policy's own, from a file."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.prompts import load_prompts
from policy.test_supplied_completions import POOLS, checks_of


@pytest.fixture
def turns(write_probe, tmp_path):
    """Two turns of the policy with a tool's token between them, drawn token by token."""
    probe = load_probe(write_probe(sampling={"max_new_tokens": 4}))
    policy, generator = load_policy(probe, tmp_path), np.random.default_rng(0)

    def follow(text):
        with torch.no_grad():
            log_pi = policy.log_probabilities(policy.logits(torch.tensor([text]), kept=1))
        pi = log_pi[0, 0].double().exp().numpy()
        token = int(generator.choice(len(pi), p=pi / pi.sum()))
        return token, float(np.log(pi[token]))

    def episode(prompt_id, tokens):
        first, one = follow(tokens)
        tool = (first + 1) % 4
        second, other = follow([*tokens, first, tool])
        return {
            "prompt": prompt_id,
            "tokens": [first, tool, second, 3],
            "mask": [1, 0, 1, 0],
            "log_probs": [one, 0.0, other, 0.0],
            "reward": int(first == second),
        }

    return [
        episode(prompt.id, encode_prompts(policy, [prompt], chat=False, new_tokens=4)[0])
        for prompt in load_prompts(probe.prompts, tmp_path)
        for _ in range(sum(POOLS.values()))
    ]


TURNS = {"sampling": {"max_new_tokens": 4}, "reward": "supplied"}


def test_turns_with_a_tool_between_hold_every_check(turns, write, run):
    """The last token, the tool's, is left out."""
    status, folder = run(completions=write(turns), **TURNS)
    checks, _ = checks_of(folder)
    assert status == 0
    assert all(checks[name]["ok"] for name in checks)
    assert set(pd.read_csv(folder / "prompts.csv")["mean_length"]) == {2}
    assert (np.load(folder / "pools.npz")["lengths_PN"] == 2).all()
    first = json.loads((folder / "completions.jsonl").read_text().splitlines()[0])
    assert first["length"] == 2
    assert first["text"] == "".join(str(token) for token in turns[0]["tokens"][:3] if token)
    assert not first["truncated"]


def test_a_tool_s_token_that_passes_for_the_policy_s_is_caught(turns, write, run):
    lines = [
        {**line, "mask": [1, 1, 1, 0], "log_probs": [*line["log_probs"][:1], -1, -1, 0]}
        for line in turns
        if 0 not in line["tokens"][:2]
    ]
    few = {**TURNS, "pool": {"reference": 8, "replicate": 8}, "group_sizes": [4]}
    status, folder = run(completions=write(lines), **few)
    assert status == 1
    assert not checks_of(folder)[0]["drawn law equals differentiated law"]["ok"]


def test_a_mask_in_some_lines_alone_is_refused(turns, write, run, capsys):
    del turns[3]["mask"]
    assert run(completions=write(turns), **TURNS)[0] == 2
    assert "line 4: mask missing, unlike in the lines before" in capsys.readouterr().err
