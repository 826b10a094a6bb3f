"""A metric beside a run: added to what is measured, sealed, and left where it is."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import transformers

import mse_lab
import run_mse
from mse_lab.mse.corrections import NAMES
from mse_lab.policy.log_probabilities import token_log_probs
from mse_lab.policy.policy import load_policy
from mse_lab.policy.prompt_tokens import encode_prompts
from mse_lab.policy.sampling import draw
from mse_lab.probe.probe_files import load_probe
from mse_lab.probe.prompts import load_prompts
from mse_lab.probe.streams import uniforms
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.integrity import read_manifest
from mse_lab.run import supplements as adding
from mse_lab.run.prepare import load, prepare
from pretended_processes import OfTwo

SETTINGS = (
    "metric.kind=curvature",
    "metric.prompts=4",
    "metric.completions=64",
    "metric.repeats=1",
)
METRIC = [word for one in SETTINGS for word in ("--set", one)]
IN_MEMORY = {"kind": "curvature", "prompts": 4, "completions": 64, "repeats": 1}

# What a metric changes of a result.
CHANGED = {"metric.npz", "config.yaml", "advice.json", "manifest.json"}


@pytest.fixture
def measured(write_probe, tmp_path):
    """The words that measure a probe into a folder, and the folder."""
    probe = write_probe(pool={"reference": 64, "replicate": 32})
    words = ("run", str(probe), "--out", str(tmp_path / "results"))
    assert run_mse.main([*words]) == 0
    return words, tmp_path / "results/small"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_metric_is_added_to_a_finished_run_and_kept(measured, capsys):
    words, folder = measured
    plain = contents(folder)
    assert "metric.npz" not in plain
    assert b"\nmetric:" not in plain["config.yaml"]
    assert run_mse.main([*words, *METRIC]) == 0
    first = contents(folder)
    assert {name for name in first if first[name] != plain.get(name)} <= CHANGED
    assert "metric.npz" in read_manifest(folder)
    capsys.readouterr()
    assert run_mse.main([*words, *METRIC]) == 0
    assert "finished before" in capsys.readouterr().out
    assert contents(folder) == first
    # The plain probe leaves it, too.
    assert run_mse.main([*words]) == 0
    assert contents(folder) == first


def test_a_fresh_run_gives_the_same_as_one_added_later(measured, tmp_path):
    words, folder = measured
    assert run_mse.main([*words, *METRIC]) == 0
    added = contents(folder)
    assert run_mse.main([*words, "--fresh", *METRIC]) == 0
    again = contents(folder)
    for name in ("metric.npz", "mse.csv", "pools.npz", "config.yaml", "advice.json"):
        assert again[name] == added[name]
    assert run_mse.main([*words, "--fresh"]) == 0
    assert "metric.npz" not in contents(folder)


def test_the_advice_shows_both_sizes_and_names_the_metric(measured, capsys):
    words, folder = measured
    capsys.readouterr()
    assert run_mse.main(["advise", str(folder), "--json"]) == 0
    advice = json.loads(capsys.readouterr().out)
    assert advice["metric"] == "plain"
    assert "felt" not in advice
    assert run_mse.main(["advise", str(folder)]) == 0
    assert "metric=adam measures what AdamW feels" in capsys.readouterr().out
    assert run_mse.main([*words, *METRIC]) == 0
    capsys.readouterr()
    assert run_mse.main(["advise", str(folder), "--json"]) == 0
    advice = json.loads(capsys.readouterr().out)
    assert advice["metric"] == "curvature"
    assert advice["felt"]["prompts"] == 4
    assert {"value", "low", "high"} <= advice["felt"]["best"].keys()
    assert run_mse.main(["advise", str(folder)]) == 0
    screen = capsys.readouterr().out
    assert "gradient error (plain)" in screen
    assert "felt by the reward of other prompts" in screen
    assert "metric=adam measures what AdamW feels" in screen
    assert run_mse.main(["advise", str(folder), "--optimizer", "sgd"]) == 0
    assert "metric=curvature measures" not in capsys.readouterr().out


def test_what_is_damaged_or_impossible_is_refused(measured, refused):
    words, folder = measured
    said = refused(*words, "--set", "metric={optimizer: nowhere, prompts: 4}")
    assert "nowhere/optimizer.pt is missing" in said
    assert "metric.kind = 'cubic'" in refused(*words, "--set", "metric=cubic")
    said = refused(*words, "--set", "metric={kind: curvature, optimizer: out}")
    assert "takes no optimizer" in said
    one = (*words[:-1], str(folder.parent / "one"), "--set", "prompts.limit=3", *METRIC)
    assert "metric: 3 prompts; it needs four or more" in refused(*one)
    assert not (folder.parent / "one").exists()
    assert run_mse.main([*words, *METRIC]) == 0
    path = folder / "metric.npz"
    path.write_bytes(path.read_bytes()[:-20])
    assert "metric.npz: damaged" in refused("advise", folder)


def same(found, folder):
    """Whether what was measured is what lies in a folder, but for roundings of batches."""
    expected = ResultsFolder(folder).read("metric.npz").as_arrays()
    for name, part in found.as_arrays().items():
        if part.dtype.kind == "f":
            np.testing.assert_allclose(part, expected[name], rtol=1e-3, atol=1e-3)
        else:
            np.testing.assert_array_equal(part, expected[name])


@pytest.fixture
def felt(write_probe, checkpoint, tmp_path):
    """The probe, its run with a metric, and what one has of it in Python."""
    probe = write_probe(pool={"reference": 64, "replicate": 32})
    assert run_mse.main(["run", str(probe), "--out", str(tmp_path / "run"), *METRIC]) == 0
    classes = (transformers.AutoModelForCausalLM, transformers.AutoTokenizer)
    rows = pd.read_json(tmp_path / "prompts.jsonl", lines=True)
    inputs = *(one.from_pretrained(checkpoint) for one in classes), rows, "integer"
    return str(probe), tmp_path / "run/small", inputs


def test_in_memory_it_is_that_of_the_command(felt, tmp_path):
    _, folder, inputs = felt
    given = {"sampling": {"max_new_tokens": 2}, "group_sizes": [2, 4, 8], "progress": False}
    given |= {"pool": {"reference": 64, "replicate": 32}, "metric": IN_MEMORY}
    for out in (None, tmp_path / "kept"):
        result = mse_lab.measure(*inputs, **given, out=out)
        same(result.metric, folder)
        assert result.advice.felt.metric == "curvature"
        assert "felt by the reward of other prompts" in str(result.advice)


def test_an_advice_measures_it_after_its_looks_and_keeps_it(
    felt, tmp_path, capsys, monkeypatch
):
    probe, folder, inputs = felt
    given = {"sampling": {"max_new_tokens": 2}, "budget": 80, "progress": False}
    in_memory = mse_lab.advise(*inputs, **given, metric=IN_MEMORY)
    ask = ["advise", probe, "--out", str(tmp_path / "few"), "--budget", "80", "--json"]
    capsys.readouterr()
    assert run_mse.main([*ask, *METRIC]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["completions"], found["metric"]) == (80, "curvature")
    same(ResultsFolder(tmp_path / "few/small/advice").read("metric.npz"), folder)
    felt_c3 = found["felt"]["c3"]["value"]
    assert felt_c3 == pytest.approx(in_memory.felt.c3.value, rel=1e-3)
    monkeypatch.setattr(adding, "measure_metric", None)
    assert run_mse.main([*ask, *METRIC]) == 0
    assert json.loads(capsys.readouterr().out) == found
    # A plain probe has none, whatever lies there.
    assert run_mse.main(ask) == 0
    assert "felt" not in json.loads(capsys.readouterr().out)


def test_an_advice_refuses_it_before_anything_is_drawn(write_probe, tmp_path, refused):
    few = ("--set", "prompts.limit=3", "--out", str(tmp_path / "few"))
    said = refused("advise", str(write_probe()), *few, *METRIC)
    assert "metric: 3 prompts; it needs four or more" in said
    assert not (tmp_path / "few").exists()


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
        adding._add_corrections(load(replace(spec, processes=Agreed(rank))), shown=False)
    assert seen == indices[1::2] + indices[::2]
    assert contents(folder)["corrections.npz"] == whole
