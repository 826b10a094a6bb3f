"""Completions that an engine drew: how far it is from the policy."""

import json
import re

import numpy as np
import pytest

import run_mse
from log_makers import write_lines
from models import draw
from mse_lab.config.probe_files import load_probe
from mse_lab.data.prompts import load_prompts
from mse_lab.data.streams import uniforms
from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.run.supplied import examine_tokens


def lines_of_an_engine(probe, folder):
    """Completions of the policy, said to be of an engine that is a little off."""
    policy, positions = load_policy(probe, folder), probe.sampling.max_new_tokens
    for prompt in load_prompts(probe.prompts, folder):
        [tokens] = encode_prompts(policy, [prompt], chat=False, new_tokens=positions)
        drawn = draw(policy, tokens, uniforms(1, prompt.id, "x", range(96), positions), "x")
        log_probs_NT, _ = examine_tokens(policy, tokens, drawn)
        for own, log_probs_T in zip(drawn.unpadded, log_probs_NT, strict=True):
            own_T = log_probs_T[: len(own)].tolist()
            engine_T = [
                one + 0.02 * (token - 1) for one, token in zip(own_T, own, strict=True)
            ]
            yield {
                "prompt": prompt.id,
                "tokens": own.tolist(),
                "log_probs": own_T,
                "engine_log_probs": engine_T,
            }


@pytest.fixture
def drawn_by_an_engine(write_probe, tmp_path):
    """The words that measure such completions, the folder, and the lines."""
    pools = {"reference": 64, "replicate": 32}
    lines = list(lines_of_an_engine(load_probe(write_probe(pool=pools)), tmp_path))
    path = write_lines(tmp_path / "drawn.jsonl", lines)
    probe = write_probe(pool=pools, completions=str(path))
    words = ["run", str(probe), "--out", str(tmp_path / "out")]
    return words, tmp_path / "out/small", lines


def test_the_mismatch_of_an_engine_is_said_in_a_line(drawn_by_an_engine, capsys):
    """Its log ratios are 0.02 (1 - token); the divergence of a token is half the square."""
    words, folder, lines = drawn_by_an_engine
    assert run_mse.main(words) == 0
    screen = " ".join(capsys.readouterr().out.split())
    found = json.loads((folder / "diagnostics.json").read_text())["mismatch"]
    ratios = [[0.02 * (1 - token) for token in line["tokens"]] for line in lines]
    flat = np.concatenate(ratios)
    assert found["completions"] == len(lines)
    assert found["kl_per_token"] == pytest.approx(np.mean(np.expm1(flat) - flat), rel=1e-3)
    weights = np.exp([sum(one) for one in ratios])
    effective = weights.sum() ** 2 / (weights @ weights) / len(weights)
    assert found["effective"] == pytest.approx(effective, abs=1e-6)
    said = re.search(r"drawn by an engine: (\S+) nats a token from the policy", screen)
    assert float(said[1]) == pytest.approx(found["kl_per_token"], rel=0.1)
    assert "(KL, blind to a tail cut off, as by top-p); ESS" in screen
    assert f"ESS {effective:.1%} of {len(lines):,} completions" in screen


def test_completions_of_the_policy_have_no_mismatch(write_probe, tmp_path, capsys):
    assert run_mse.main(["run", str(write_probe()), "--out", str(tmp_path)]) == 0
    assert "engine" not in capsys.readouterr().out
    assert json.loads((tmp_path / "small/diagnostics.json").read_text())["mismatch"] is None
