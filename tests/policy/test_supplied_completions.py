"""Completions from a file: measured as if drawn here, and refused where they cannot be."""

import hashlib
import json
import runpy
import sys
import tracemalloc
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import yaml

from mse_lab.policy import sampling as drawing
from mse_lab.policy.log_probabilities import token_log_probs
from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.policy.supplied_completions import find_completions
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.prompts import load_prompts
from mse_lab.probe.rewards import integer
from mse_lab.probe.streams import uniforms
from results.test_checks import top_p

POOLS = {"reference": 64, "replicate": 32}


@pytest.fixture
def drawn(write_probe, tmp_path):
    """Return a function that draws every completion of the probe, lines of JSON objects."""

    def draw(**changes):
        probe = load_probe(write_probe(**changes))
        policy = load_policy(probe, tmp_path)
        lines = []
        for prompt in load_prompts(probe.prompts, tmp_path):
            [tokens] = encode_prompts(policy, [prompt], chat=False, new_tokens=2)
            for pool in POOLS:
                numbers = uniforms(0, prompt.id, pool, range(getattr(probe.pool, pool)), 2)
                found = drawing.draw(policy, tokens, numbers, prompt.id)
                for row, text in enumerate(found.texts(policy)):
                    own = found.tokens_NT[row, : found.lengths_N[row]].tolist()
                    lines.append(
                        {
                            "prompt": prompt.id,
                            "pool": pool,
                            "tokens": own,
                            "text": text,
                            "log_probs": float(found.log_probs_N[row]),
                            "reward": integer(text, prompt.record),
                        }
                    )
        return lines

    return draw


def checks_of(folder):
    content = json.loads((folder / "checks.json").read_text())
    return {entry["name"]: entry for entry in content["checks"]}, content


FORMS = {
    "tokens": {"text", "pool", "reward"},
    "texts": {"tokens", "pool", "reward"},
    "pools named": {"text", "reward"},
    "no log-probabilities": {"text", "pool", "reward", "log_probs"},
}


@pytest.mark.parametrize("form", FORMS)
def test_measured_as_if_drawn_here(form, drawn, write, run):
    lines = drawn()
    status, here = run("here")
    assert status == 0
    if form == "pools named":
        # Any order of prompts and pools will do, if that within a pool is kept.
        lines.sort(key=lambda line: (line["pool"] == "reference", line["prompt"]))
    status, there = run("there", completions=write(lines, without=FORMS[form]))
    assert status == 0
    for table in ("mse.csv", "prompts.csv", "by_prompt.csv"):
        assert (here / table).read_bytes() == (there / table).read_bytes()
    made = json.loads((there / "environment.json").read_text())
    given = (there.parents[1] / "drawn.jsonl").read_bytes()
    assert made["completions_sha256"] == hashlib.sha256(given).hexdigest()


def test_lines_of_a_result_are_a_file_of_completions(run):
    _, here = run("here")
    status, there = run("there", completions=str(here / "completions.jsonl"))
    assert status == 0
    assert (here / "mse.csv").read_bytes() == (there / "mse.csv").read_bytes()


def test_a_check_without_its_figures_is_said_to_be_not_made(drawn, write, run, capsys):
    status, folder = run(completions=write(drawn(), without=FORMS["no log-probabilities"]))
    checks, content = checks_of(folder)
    law = checks["drawn law equals differentiated law"]
    assert (status, content["ok"]) == (0, True)
    assert (law["ok"], law["figure"]) == (None, None)
    assert checks["completions are the policy's"]["ok"]
    assert any("gives no log-probabilities" in words for words in content["warnings"])
    assert "drawn law equals differentiated law not made" in capsys.readouterr().out
    first = json.loads((folder / "completions.jsonl").read_text().splitlines()[0])
    assert first["log_prob"] is None
    again, _ = run(completions=str(folder.parents[1] / "drawn.jsonl"))
    assert again == 0


def test_texts_are_said_to_be_tokenised_anew(drawn, write, run):
    _, folder = run(completions=write(drawn(), without=FORMS["texts"]))
    _, content = checks_of(folder)
    told = [words for words in content["warnings"] if "tokenised anew" in words]
    assert any("need not be the tokens that were drawn" in words for words in told)


LARGE = {"pool": {"reference": 128, "replicate": 64}}


@pytest.mark.parametrize("given", ["true", "untouched", "none"])
def test_top_p_is_caught(given, drawn, write, run, monkeypatch):
    """Whether log-probabilities are those drawn with, those before top-p, or not given.

    By default vLLM gives those before top-p: what it drew looks honest but for its tokens.
    """
    honest = drawing.next_log_probabilities, drawing.invert
    with monkeypatch.context() as patched:
        if given == "true":
            name, warped = "next_log_probabilities", lambda *a: top_p(honest[0](*a), 0.8)
        else:
            name, warped = "invert", lambda pi, *u: honest[1](top_p(pi, 0.8), *u)
        patched.setattr(drawing, name, warped)
        lines = drawn(**LARGE)
    without = {"text", "reward", *({"log_probs"} if given == "none" else ())}
    status, folder = run(completions=write(lines, without), **LARGE)
    checks, content = checks_of(folder)
    assert (status, content["ok"]) == (1, False)
    law = checks["drawn law equals differentiated law"]["ok"]
    assert law is {"true": False, "untouched": True, "none": None}[given]
    assert not checks["completions are the policy's"]["ok"]
    assert any("not the policy's" in words for words in content["warnings"])


def test_rewards_of_the_file(drawn, write, run):
    lines = drawn()
    _, here = run("here")
    status, there = run("there", completions=write(lines), reward="supplied")
    assert status == 0
    assert (here / "mse.csv").read_bytes() == (there / "mse.csv").read_bytes()


def test_a_changed_file_is_refused(drawn, write, run, capsys):
    lines = drawn()
    path = write(lines)
    assert run(completions=path)[0] == 0
    assert run(completions=path)[0] == 0
    lines[-1]["log_probs"] -= 1e-5
    assert run(completions=write(lines))[0] == 2
    assert "the file of completions have changed since" in capsys.readouterr().err


def without_last(lines):
    del lines[-1]


def with_stranger(lines):
    lines.append({**lines[0], "prompt": "p9"})


FAULTY = {
    "too few": (without_last, "prompt p4 has 95 completions, too few for pool.reference"),
    "other prompts": (
        lambda lines: [line.update(prompt="q") for line in lines],
        "such as 'q', are not those of the prompt set, such as 'p0'",
    ),
    "nothing": (lambda lines: lines.clear(), "is empty"),
    "mixture": (
        lambda lines: lines[1].pop("log_probs"),
        "line 2: log_probs missing, unlike in the lines before",
    ),
    "last prompt": (
        lambda lines: lines[-1].update(tokens=[7]),
        "prompt p4, replicate completion 31: token 7 is not in the vocabulary of 4",
    ),
}


@pytest.mark.parametrize("case", FAULTY)
def test_a_faulty_file_is_refused_before_anything_is_measured(
    case, drawn, write, run, capsys
):
    change, message = FAULTY[case]
    lines = drawn()
    change(lines)
    status, folder = run(completions=write(lines, without=("pool",)))
    errors = [one for one in capsys.readouterr().err.splitlines() if "run_mse.py" in one]
    assert (status, len(errors)) == (2, 1)
    assert message in errors[0]
    assert not (folder / "shards").exists()


def test_too_few_of_a_named_pool(drawn, write, run, capsys):
    lines = drawn()
    lines[-1]["pool"] = "reference"
    assert run(completions=write(lines))[0] == 2
    assert "prompt p4 has 31 replicate completions, too few" in capsys.readouterr().err


def test_no_file(run, capsys):
    assert run(completions="no/such.jsonl")[0] == 2
    assert "completions = no/such.jsonl: no such file" in capsys.readouterr().err


def test_further_prompts_and_completions_are_left_out(drawn, write, run):
    lines = drawn()
    _, here = run("here", completions=write(lines))
    with_stranger(lines)
    lines += lines[:64]
    status, there = run("there", completions=write(lines))
    assert status == 0
    assert (here / "mse.csv").read_bytes() == (there / "mse.csv").read_bytes()
    assert any("1 more prompts" in words for words in checks_of(there)[1]["warnings"])


@dataclass
class SamplingParams:
    """What vLLM is asked for, with its own defaults."""

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 16
    stop: list | None = None
    logprobs: int | None = None


def fake_vllm(policy, temperature=None):
    """Make a module in which LLM draws from a policy, in the form of vLLM's answers."""

    class LLM:
        def __init__(self, model, revision, dtype, logprobs_mode, seed):
            assert (logprobs_mode, dtype) == ("processed_logprobs", "float32")

        def generate(self, texts, wanted):
            assert (wanted.top_p, wanted.top_k, wanted.stop, wanted.logprobs) == (
                1,
                -1,
                None,
                0,
            )
            law = replace(policy, temperature=temperature or wanted.temperature)
            return [
                SimpleNamespace(outputs=self._draw(law, text, wanted)) for text in texts
            ]

        def _draw(self, law, text, wanted):
            tokens = policy.tokenizer(text).input_ids
            shape = uniforms(7, text, "replicate", range(wanted.n), wanted.max_tokens)
            drawn = drawing.draw(law, tokens, shape, text)
            own = token_log_probs(law, tokens, drawn).tolist()
            for row, log_probs in zip(drawn.unpadded, own, strict=True):
                at = [
                    {token: SimpleNamespace(logprob=value)}
                    for token, value in zip(row.tolist(), log_probs, strict=False)
                ]
                yield SimpleNamespace(token_ids=tuple(row.tolist()), logprobs=at)

    return SimpleNamespace(LLM=LLM, SamplingParams=SamplingParams)


@pytest.mark.parametrize("temperature", [None, 0.3], ids=["the law", "another"])
def test_what_vllm_draws_is_read(temperature, write_probe, tmp_path, run, monkeypatch):
    path = write_probe(**LARGE)
    policy = load_policy(load_probe(path), tmp_path)
    monkeypatch.setitem(sys.modules, "vllm", fake_vllm(policy, temperature))
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "drawn.jsonl"
    runpy.run_module("probes.making.vllm_completions")["main"](str(path), str(out))
    status, folder = run(completions=str(out), **LARGE)
    assert status == (temperature is not None)
    assert checks_of(folder)[0]["completions are the policy's"]["ok"] is not bool(status)


def test_the_file_is_not_kept_in_memory(write_probe, tmp_path):
    """Of 5 MB, an index of eight bytes a line."""
    values = yaml.safe_load(write_probe().read_text())
    path = tmp_path / "large.jsonl"
    tokens = list(range(100_000, 102_500))  # 20 kB of text
    with path.open("w") as file:
        for index in range(5):
            line = json.dumps({"prompt": f"p{index}", "tokens": tokens})
            file.writelines(f"{line}\n" for _ in range(60))
    changes = {"pool": {"reference": 32, "replicate": 16}, "completions": str(path)}
    probe = load_probe(write_probe(**{**values, **changes}))
    prompts = load_prompts(probe.prompts, tmp_path)
    tracemalloc.start()
    found = find_completions(probe, prompts, tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 5e6
    assert peak < 5e5
    assert {len(pools["reference"]) for pools in found.offsets.values()} == {32}
