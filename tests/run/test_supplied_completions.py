"""Completions from a file: measured as if drawn here, and refused where they cannot be."""

import hashlib
import json
import re
import runpy
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

import run_mse
from log_makers import write_lines
from models import draw, random_policy, stopped_policy
from mse_lab.config.probe_files import load_probe
from mse_lab.data.prompts import load_prompts
from mse_lab.data.rewards import integer
from mse_lab.data.streams import uniforms
from mse_lab.data.supplied_completions import lines_of
from mse_lab.errors import InputError
from mse_lab.policy import sampling as drawing
from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.records.rows import Rows
from mse_lab.run import supplied
from mse_lab.run.supplied import examine_tokens, read_tokens
from results.test_checks import top_p


def parse_line(raw):
    columns = {name: [value] for name, value in json.loads(raw).items()}
    [line] = lines_of(Rows("here", "line", [1], columns))
    return line


def line_of(**keys):
    return parse_line(json.dumps({"prompt": "a", **keys}).encode())


def read(policy=None, **keys):
    """Read all of a line that a run reads."""
    line = line_of(**keys)
    tokens = read_tokens(line, policy or random_policy(), 6)
    return tokens.tolist(), line.mask, line.policy_log_prob


def chat(content, role="assistant", **more):
    """The messages of an answer in a chat, as TRL logs it."""
    return [{"role": role, "content": content, **more}]


REFUSED = {
    "no prompt": ({"prompt": None, "tokens": [1]}, "prompt is missing"),
    "no tokens": ({"ids": [1]}, "neither tokens nor text"),
    "a mask of a text": ({"text": "1", "mask": [1]}, "mask: given with a text"),
    "an engine's of a text": ({"text": "1", "engine_log_probs": [-1]}, "given with a text"),
    "pool": ({"tokens": [1], "pool": "x"}, "pool = 'x': give reference or replicate"),
    "empty": ({"tokens": []}, "no tokens; an empty completion is its end token alone"),
    "words": ({"tokens": ["a"]}, "tokens = ['a']: give a list of token ids"),
    "negative": ({"tokens": [-1, 1]}, "token -1 is not in the vocabulary of 11"),
    "outside": ({"tokens": [11, 1]}, "token 11 is not in the vocabulary of 11"),
    "too long": ({"tokens": [3] * 7}, "7 tokens, and sampling.max_new_tokens = 6"),
    "cut": ({"tokens": [3, 4]}, "2 tokens without an end token"),
    "end inside": ({"tokens": [3, 2, 4, 1]}, "end token 2 is number 2 of 4 tokens"),
    "mask: 2": ({"tokens": [3, 1], "mask": [1, 2]}, "mask = 2: give a list of 0 and 1"),
    "mask: few": ({"tokens": [3, 4, 1], "mask": [1, 1]}, "mask: 2 entries for 3 tokens"),
    "mask: none": ({"tokens": [3, 1], "mask": [0, 0]}, "mask: 0 for every token"),
    "mask: end": ({"tokens": [3, 1, 4, 2], "mask": [1] * 4}, "end token 1 is number 2 of"),
    "mask: no end": ({"tokens": [3, 1, 4], "mask": [1, 0, 1]}, "3 tokens without an end"),
    "few log pi": ({"tokens": [3, 1], "log_probs": [-0.5]}, "log_probs: 1 entries for 2"),
    "null": ({"tokens": [3, 1], "log_probs": [-0.5, None]}, "log_probs"),
    "NaN": ({"tokens": [3, 1], "log_probs": [-0.5, float("nan")]}, "log_probs"),
    "engine: few": ({"tokens": [3, 1], "engine_log_probs": [-1]}, "1 entries for 2"),
    "a number": ({"text": 8}, "text = 8: give the text that was drawn"),
    "a mapping": ({"text": {"content": "8"}}, "text = {'content': '8'}: give the text"),
    "one of the user": ({"text": chat("8", "user")}, "give the text that was drawn, of"),
    "two messages": ({"text": chat("8") * 2}, "of several turns as tokens with a mask"),
    "a tool's call": ({"text": chat("8", tool_calls=[{"name": "add"}])}, "'tool_calls'"),
    "content in parts": ({"text": chat([{"type": "text", "text": "8"}])}, "give the text"),
    "no message": ({"text": []}, "text = []: give the text that was drawn"),
    "written out": ({"text": str(chat("8"))}, "give the text that was drawn"),
    "half a character": ({"text": "\ud800"}, "give the text that was drawn"),
    "two texts": ({"text": "8", "output": "9"}, "neither tokens nor text"),
    "engine: sum": ({"tokens": [3, 1], "engine_log_probs": -1.5}, "give a list of log"),
    "a reward in words": ({"text": "", "reward": "one"}, "reward = 'one': give"),
    "a huge reward": ({"text": "", "reward": 1e300}, "reward = 1e+300: give"),
}

# The same of a policy with the stop string ##, whose tokens are 2 and 4.
STOPPED = {
    "goes on": ({"tokens": [2, 4, 5]}, "token 2 of 3 completes a string of sampling.stop"),
    "goes on after one": ({"tokens": [3, 1]}, "token 1 of 2 completes a string"),
    "no end": ({"tokens": [2, 5]}, "2 tokens without an end token (1) or stop string"),
    "text": ({"text": "a"}, "a text does not tell which token"),
    "mask and stop": ({"tokens": [2, 4], "mask": [1, 1]}, "leave out sampling.stop"),
}


@pytest.mark.parametrize("case", [*REFUSED, *STOPPED])
def test_a_line_that_the_policy_cannot_have_drawn(case):
    keys, message = {**REFUSED, **STOPPED}[case]
    with pytest.raises(InputError) as refused:
        read(stopped_policy("##") if case in STOPPED else None, **keys)
    assert str(refused.value).startswith("here, line 1: ")
    assert message in str(refused.value)


TAKEN = {
    "an end": ({"tokens": [2]}, [2], float("nan")),
    "truncated": ({"tokens": [3] * 6}, [3] * 6, float("nan")),
    "ended last": ({"tokens": [3] * 5 + [1]}, [3] * 5 + [1], float("nan")),
    "sum": ({"tokens": [0, 2], "log_prob": -1.5}, [0, 2], -1.5),
    "of each": ({"tokens": [3, 1], "log_probs": [-0.5, -1]}, [3, 1], -1.5),
    # What a tool wrote counts nothing, and it may go on after an end token.
    "mask": (
        {"tokens": [1, 2, 1, 2], "mask": [1, 0, 0, 1], "log_probs": [-1, 7, 7, -2]},
        *([1, 2, 1, 2], -3.0),
    ),
    "a tool's last word": ({"tokens": [3, 4], "mask": [True, False]}, [3, 4], float("nan")),
}


@pytest.mark.parametrize(("keys", "tokens", "log_prob"), TAKEN.values(), ids=TAKEN)
def test_a_line_that_the_policy_can_have_drawn(keys, tokens, log_prob):
    found, mask, total = read(**keys)
    assert found == tokens
    np.testing.assert_equal(total, log_prob)
    assert (None if mask is None else [*mask]) == keys.get("mask")
    assert read(stopped_policy("##"), tokens=[2, 4])[0] == [2, 4]


def test_texts_are_ended_where_they_are_short_and_not_cut(write_probe, tmp_path):
    """Of at most two tokens: the end token is 0."""
    policy = load_policy(load_probe(write_probe()), tmp_path)

    def tokens_of(text, **keys):
        return read_tokens(line_of(text=text, **keys), policy, 2).tolist()

    texts = ("", "3", "3 1", "3 <end>")
    assert [*map(tokens_of, texts)] == [[0], [3, 0], [3, 1], [3, 0]]
    messages = [*map(chat, texts), chat("3", tool_calls=None)]
    assert [*map(tokens_of, messages)] == [[0], [3, 0], [3, 1], [3, 0], [3, 0]]
    cut = [tokens_of(text, truncated=True) for text in ("3", "3 1", "1 2 3")]
    assert cut == [[3], [3, 1], [1, 2]]
    with pytest.raises(InputError, match=r"3 tokens, and sampling.*give tokens"):
        tokens_of("1 2 3")


POOLS = {"reference": 64, "replicate": 32}


def write(folder, lines, without=()):
    """Write lines, some of their keys left out."""
    kept = [{key: line[key] for key in line if key not in without} for line in lines]
    return str(write_lines(folder / "drawn.jsonl", kept))


@pytest.fixture
def run(write_probe, tmp_path):
    """Return a function that runs the probe, maybe on lines, some of their keys left out.

    It gives the exit status and the folder.
    """

    def run(lines=None, without=(), out="out", **changes):
        if lines is not None:
            changes["completions"] = write(tmp_path, lines, without)
        words = ["run", str(write_probe(**changes)), "--out", str(tmp_path / out)]
        return run_mse.main(words), tmp_path / out / "small"

    return run


@pytest.fixture
def drawn(write_probe, tmp_path):
    """Return a function that draws every completion of the probe, lines of JSON objects.

    Also what an engine says that is a little off, under a name that nobody reads.
    """

    def lines_of(policy, prompt, pool, size):
        [tokens] = encode_prompts(policy, [prompt], chat=False, new_tokens=2)
        numbers = uniforms(0, prompt.id, pool, range(size), 2)
        found = draw(policy, tokens, numbers, prompt.id)
        own_NT, _ = examine_tokens(policy, tokens, found)
        drawn_N = map(float, found.log_probs_N)
        columns = zip(found.unpadded, found.texts(policy), drawn_N, own_NT, strict=True)
        for own, text, log_prob, own_T in columns:
            keys = {"prompt": prompt.id, "pool": pool, "tokens": own.tolist(), "text": text}
            reward = integer(text, prompt.record)
            off = (own_T[: len(own)] + 0.02 * (own - 1)).tolist()
            yield {**keys, "log_probs": log_prob, "reward": reward, "off": off}

    def every(**changes):
        probe = load_probe(write_probe(**changes))
        policy = load_policy(probe, tmp_path)
        return [
            line
            for prompt in load_prompts(probe.prompts, tmp_path)
            for pool in POOLS
            for line in lines_of(policy, prompt, pool, getattr(probe.pool, pool))
        ]

    return every


def checks_of(folder):
    content = json.loads((folder / "checks.json").read_text())
    return {entry["name"]: entry["ok"] for entry in content["checks"]}, content["warnings"]


LAW, OWN = "drawn law equals differentiated law", "completions are the policy's"

# What is left out of the lines.
FORMS = {
    "rewards": {"text", "pool"},
    "pools named": {"text", "reward"},
    "no log-probabilities": {"text", "pool", "reward", "log_probs"},
}


def test_measured_as_if_drawn_here(drawn, run, tmp_path, capsys):
    lines, (status, here) = drawn(), run(out="here")
    assert status == 0
    for form, without in FORMS.items():
        given = lines
        if form == "pools named":
            # Any order of prompts and pools will do, if that within a pool is kept.
            given = sorted(
                lines, key=lambda one: (one["pool"] == "reference", one["prompt"])
            )
        changes = {"reward": "supplied"} if form == "rewards" else {}
        status, there = run(given, without, form, **changes)
        assert status == 0, form
        for table in ("mse.csv", "prompts.csv"):
            assert (here / table).read_bytes() == (there / table).read_bytes(), form
        checks, warnings = checks_of(there)
        assert checks[OWN]
        assert checks[LAW] is (None if form == "no log-probabilities" else True)
        unknown = "gives no log-probabilities" in " ".join(warnings)
        assert unknown == (form == "no log-probabilities")
    said = capsys.readouterr().out
    assert "drawn law equals differentiated law not made" in said
    assert "engine" not in said
    assert json.loads((here / "diagnostics.json").read_text())["mismatch"] is None
    made = json.loads((there / "checkpoint.json").read_text())
    digest = hashlib.sha256((tmp_path / "drawn.jsonl").read_bytes()).hexdigest()
    assert made["file of completions"] == digest


def test_the_mismatch_of_an_engine_is_said_in_a_line(drawn, run, capsys):
    """Its log ratios are 0.02 (1 - token); the divergence of a token is half the square."""
    lines = [{**line, "engine_log_probs": line["off"]} for line in drawn()]
    status, folder = run(lines)
    assert status == 0
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


LARGE = {"pool": {"reference": 128, "replicate": 64}}


@pytest.mark.parametrize("given", ["true", "untouched"])
def test_top_p_is_caught(given, drawn, run, monkeypatch):
    """Whether log-probabilities are those drawn with, or those before top-p.

    By default vLLM gives the latter: what it drew looks honest but for its tokens.
    """
    monkeypatch.setattr(supplied, "RARE", 0.2)  # There are four tokens.
    honest = drawing.next_log_probabilities, drawing.invert
    with monkeypatch.context() as patched:
        if given == "true":
            name, warped = "next_log_probabilities", lambda *a: top_p(honest[0](*a), 0.8)
        else:
            name, warped = "invert", lambda pi, *u: honest[1](top_p(pi, 0.8), *u)
        patched.setattr(drawing, name, warped)
        lines = drawn(**LARGE)
    status, folder = run(lines, {"text", "reward"}, **LARGE)
    checks, warnings = checks_of(folder)
    assert (status, checks[LAW], checks[OWN]) == (1, given == "untouched", False)
    assert any("not the policy's" in words for words in warnings)


def test_further_prompts_and_completions_are_left_out(drawn, run, capsys):
    lines = drawn()
    _, here = run(lines, out="here")
    more = [*lines, {**lines[0], "prompt": "p9"}, *lines[:64]]
    status, there = run(more)
    assert status == 0
    assert (here / "mse.csv").read_bytes() == (there / "mse.csv").read_bytes()
    assert any("1 more prompts" in words for words in checks_of(there)[1])
    assert run(more)[0] == 0
    more[-1]["log_probs"] -= 1e-5
    assert run(more)[0] == 2
    assert "it began with another file of completions" in capsys.readouterr().err


def masked(lines):
    lines[3]["mask"] = [1] * len(lines[3]["tokens"])


def named(lines):
    lines[-1]["pool"] = "reference"


# What a file leaves out, how its lines are spoilt, and what is said of them.
FAULTY = {
    "few": ({"pool"}, lambda lines: lines.pop(), "p4 has 64 reference and 31 replicate"),
    "few of a pool": ((), named, "prompt p4 has 64 reference and 31 replicate comp"),
    "prompts": ({"pool"}, lambda lines: [line.update(prompt="q") for line in lines],
                "such as 'q', are not those of the prompt set, such as 'p0'"),
    "nothing": ({"pool"}, lambda lines: lines.clear(), "is empty"),
    "mixture": ({"pool"}, lambda lines: lines[1].pop("log_probs"),
                "line 2: log_probs missing, unlike in the lines before"),
    "masks in some": ({"pool"}, masked,
                      "line 4: mask given, unlike in the lines before"),
    "last": ({"pool"}, lambda lines: lines[-1].update(tokens=[7]),
             "line 480: token 7 is not in the vocabulary of 4"),
    "no reward": ({"reward"}, lambda lines: None, "line 1: no reward, and the probe says"),
}  # fmt: skip


def test_a_faulty_file_is_refused_before_anything_is_measured(
    drawn, write_probe, refused, tmp_path
):
    """The reader, that of logs, leaves a damaged line out and counts it."""
    lines, out = drawn(), tmp_path / "out"
    for case, (without, change, message) in FAULTY.items():
        given = [dict(line) for line in lines]
        change(given)
        path = write(tmp_path, given, without)
        reward = {"reward": "supplied"} if case == "no reward" else {}
        assert message in refused(
            "run", write_probe(completions=path, **reward), "--out", out
        )
        assert not (out / "small/shards").exists()
    path = Path(write(tmp_path, lines, {"text"}))
    path.write_text(path.read_text().replace('{"prompt": "p2"', '{"prompt": p2', 1))
    probe = write_probe(completions=str(path))
    assert "line 193: not valid JSON" in refused("run", probe, "--out", out)


def episode(policy, generator, prompt_id, tokens):
    """Draw two turns with a tool's token between them, and one at the end."""

    def follow(text):
        with torch.no_grad():
            log_pi = policy.log_probabilities(policy.logits(torch.tensor([text]), kept=1))
        pi = log_pi[0, 0].double().exp().numpy()
        token = int(generator.choice(len(pi), p=pi / pi.sum()))
        return token, float(np.log(pi[token]))

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


def test_turns_with_a_tool_between_hold_every_check(write_probe, tmp_path, run):
    """And a tool's token that passes for the policy's does not."""
    turns = {"sampling": {"max_new_tokens": 4}, "reward": "supplied"}
    probe = load_probe(write_probe(sampling=turns["sampling"]))
    policy, generator = load_policy(probe, tmp_path), np.random.default_rng(0)
    lines = [
        episode(policy, generator, prompt.id, tokens)
        for prompt in load_prompts(probe.prompts, tmp_path)
        for tokens in encode_prompts(policy, [prompt], chat=False, new_tokens=4)
        for _ in range(sum(POOLS.values()))
    ]
    status, folder = run(lines, **turns)
    assert status == 0
    assert all(checks_of(folder)[0].values())
    assert set(pd.read_csv(folder / "prompts.csv")["mean_length"]) == {2}
    first = json.loads((folder / "completions.jsonl").read_text().splitlines()[0])
    text = "".join(str(token) for token in lines[0]["tokens"][:3] if token)
    assert (first["length"], first["text"], first["truncated"]) == (2, text, False)
    passing = [
        {**line, "mask": [1, 1, 1, 0], "log_probs": [*line["log_probs"][:1], -1, -1, 0]}
        for line in lines
        if 0 not in line["tokens"][:2]
    ]
    few = {**turns, "pool": {"reference": 8, "replicate": 8}, "group_sizes": [4]}
    status, folder = run(passing, out="passing", **few)
    assert (status, checks_of(folder)[0][LAW]) == (1, False)


@dataclass
class SamplingParams:
    """vLLM's, with its own defaults."""

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 16
    stop: list | None = None
    logprobs: int | None = None


def fake_vllm(policy, temperature):
    """Make a module in which LLM draws from a policy, in the form of vLLM's answers."""

    class LLM:
        def __init__(self, model, revision, dtype, logprobs_mode, seed):
            assert (logprobs_mode, dtype) == ("processed_logprobs", "float32")

        def generate(self, texts, wanted):
            law = wanted.top_p, wanted.top_k, wanted.stop, wanted.logprobs
            assert law == (1, -1, None, 0)
            mine = replace(policy, temperature=temperature or wanted.temperature)
            return [SimpleNamespace(outputs=answers(mine, text, wanted)) for text in texts]

    def answers(law, text, wanted):
        tokens = policy.tokenizer(text).input_ids
        numbers = uniforms(7, text, "replicate", range(wanted.n), wanted.max_tokens)
        drawn = draw(law, tokens, numbers, text)
        own = examine_tokens(law, tokens, drawn)[0].tolist()
        for row, log_probs in zip(map(tuple, drawn.unpadded), own, strict=True):
            pairs = zip(map(int, row), log_probs, strict=False)
            at = [{token: SimpleNamespace(logprob=value)} for token, value in pairs]
            yield SimpleNamespace(token_ids=tuple(map(int, row)), logprobs=at)

    return SimpleNamespace(LLM=LLM, SamplingParams=SamplingParams)


@pytest.mark.parametrize("temperature", [None, 0.3], ids=["the law", "another"])
def test_what_vllm_draws_is_read(temperature, write_probe, tmp_path, run, monkeypatch):
    path, out = write_probe(), tmp_path / "drawn.jsonl"
    policy = load_policy(load_probe(path), tmp_path)
    monkeypatch.setattr(supplied, "RARE", 0.2)
    monkeypatch.setitem(sys.modules, "vllm", fake_vllm(policy, temperature))
    monkeypatch.chdir(tmp_path)
    runpy.run_module("probes.making.vllm_completions")["main"](str(path), str(out))
    status, folder = run(completions=str(out))
    assert status == (temperature is not None)
    assert checks_of(folder)[0][OWN] is not bool(status)
