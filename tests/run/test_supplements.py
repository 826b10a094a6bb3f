"""Corrections beside a run: added to what is measured, sealed, and left where it is."""

import json
from dataclasses import replace

import pandas as pd
import pytest

import run_mse
from mse_lab.mse.corrections import NAMES
from mse_lab.policy.log_probabilities import token_log_probs
from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.policy.sampling import draw
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.prompts import load_prompts
from mse_lab.probe.streams import uniforms
from mse_lab.results.integrity import read_manifest
from mse_lab.run import supplements as adding
from mse_lab.run.prepare import load, prepare
from pretended_processes import OfTwo


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def lines_of_an_engine(probe, folder):
    """Completions of the policy, said to be of an engine that is a little off."""
    policy, positions = load_policy(probe, folder), probe.sampling.max_new_tokens
    for prompt in load_prompts(probe.prompts, folder):
        [tokens] = encode_prompts(policy, [prompt], chat=False, new_tokens=positions)
        drawn = draw(policy, tokens, uniforms(1, prompt.id, "x", range(96), positions), "x")
        log_probs_NT = token_log_probs(policy, tokens, drawn).numpy()
        for own, log_probs_T in zip(drawn.unpadded, log_probs_NT, strict=True):
            own_T = log_probs_T[: len(own)].tolist()
            engine_T = [
                one + 0.02 * (token - 1) for one, token in zip(own_T, own, strict=True)
            ]
            yield {"prompt": prompt.id, "tokens": own.tolist(), "log_probs": own_T,
                   "engine_log_probs": engine_T}  # fmt: skip


@pytest.fixture
def drawn_by_an_engine(write_probe, tmp_path):
    """The words that measure such a probe, its folder, and the probe."""
    pools = {"reference": 64, "replicate": 32}
    lines = lines_of_an_engine(load_probe(write_probe(pool=pools)), tmp_path)
    path = tmp_path / "drawn.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    probe = write_probe(pool=pools, completions=str(path))
    words = ["run", str(probe), "--out", str(tmp_path / "out")]
    return words, tmp_path / "out/small", probe


def test_where_an_engine_drew_corrections_are_added(drawn_by_an_engine, capsys):
    words, folder, _ = drawn_by_an_engine
    assert run_mse.main(words) == 0
    assert "corrections.npz" in read_manifest(folder)
    first = contents(folder)
    assert run_mse.main(words) == 0
    assert contents(folder) == first
    capsys.readouterr()
    assert run_mse.main(["advise", str(folder), "--json"]) == 0
    mismatch = json.loads(capsys.readouterr().out)["mismatch"]
    assert 0 < mismatch["kl_per_token"] < 0.001
    assert [row["correction"] for row in mismatch["rows"]] == [*NAMES]
    assert run_mse.main(["advise", str(folder)]) == 0
    assert "The engine that drew these completions is" in capsys.readouterr().out


def test_corrections_of_a_killed_start_are_gone_on_with(drawn_by_an_engine, monkeypatch):
    words, folder, _ = drawn_by_an_engine
    seen, honest, count = [], adding.correct, 2

    def correct(subject, index):
        if len(seen) == count:
            raise KeyboardInterrupt
        seen.append(index)
        return honest(subject, index)

    monkeypatch.setattr(adding, "correct", correct)
    assert run_mse.main(words) == 130
    count = -1
    assert run_mse.main(words) == 0
    prompts = len(pd.read_csv(folder / "prompts.csv"))
    assert seen == list(range(prompts))
    gone_on = contents(folder)
    assert not (folder / "shards").exists()
    assert run_mse.main([*words, "--fresh"]) == 0
    assert seen == [*range(prompts)] * 2
    again = contents(folder)
    assert gone_on["corrections.npz"] == again["corrections.npz"]


def test_processes_share_the_corrections(drawn_by_an_engine, monkeypatch, tmp_path):
    """Each takes every other prompt, and the first one joins them."""
    words, folder, probe = drawn_by_an_engine
    assert run_mse.main(words) == 0
    spec = prepare("small", load_probe(probe), folder, tmp_path)
    indices, seen, honest = list(range(len(spec.prompts))), [], adding.correct

    class Agreed(OfTwo):
        def agree(self, decide, kind=None):
            return indices if kind else decide() if self.first else None

    def correct(subject, index):
        seen.append(index)
        return honest(subject, index)

    monkeypatch.setattr(adding, "correct", correct)
    whole = contents(folder)["corrections.npz"]
    for rank in (1, 0):
        adding.add_corrections(load(replace(spec, processes=Agreed(rank))), shown=False)
    assert seen == indices[1::2] + indices[::2]
    assert contents(folder)["corrections.npz"] == whole
