"""Completions of a server: drawn into a file or in a run, measured as the policy's."""

import json

import pytest

import run_mse
from mse_lab.policy.policy import load_outline, load_policy
from mse_lab.probe.probe_files import load_probe
from mse_lab.run.advise import sample_probe
from mse_lab.run.prepare import prepare
from served_engine import ServedEngine

# Of each prompt; 5 requests of at most 16 completions for its pools.
POOL = {"reference": 48, "replicate": 32}
KEYS = {
    (f"p{prompt}", pool, number)
    for prompt in range(5)
    for pool, size in POOL.items()
    for number in range(size)
}


@pytest.fixture
def path(write_probe):
    return write_probe(pool=POOL)


@pytest.fixture
def policy(path, tmp_path):
    return load_policy(load_probe(path), tmp_path)


@pytest.fixture
def words(path, tmp_path):
    """The words of `draw`, but for the server's address."""
    return ["draw", str(path), "--out", str(tmp_path / "drawn.jsonl"), "--server"]


def keys_of(file):
    lines = map(json.loads, file.read_text().splitlines())
    return [(line["prompt"], line["pool"], line["number"]) for line in lines]


def test_what_it_writes_is_measured_with_the_mismatch(
    policy, words, path, tmp_path, capsys
):
    with ServedEngine(policy, "sglang") as engine:
        assert run_mse.main([*words, engine.url]) == 0
    drawn = words[3]
    printed = capsys.readouterr()
    assert f"next: python run_mse.py run {path} --set completions={drawn}" in printed.out
    assert "400/400 completions" in printed.err
    assert sorted(keys_of(tmp_path / "drawn.jsonl")) == sorted(KEYS)
    out = ["--out", str(tmp_path), "--set", f"completions={drawn}"]
    assert run_mse.main(["run", str(path), *out]) == 0
    assert (tmp_path / "small/corrections.npz").exists()
    made = json.loads((tmp_path / "small/checks.json").read_text())
    assert not any("gives no log-probabilities" in one for one in made["warnings"])


def test_a_later_start_draws_what_is_missing_and_nothing_twice(
    policy, words, tmp_path, refused
):
    file = tmp_path / "drawn.jsonl"
    with ServedEngine(policy) as engine:
        engine.faults = [*[None] * 9, 400, 400]
        assert "answers 400" in refused(*words, engine.url)
    kept = file.read_text().splitlines(keepends=True)
    assert 0 < len(kept) < 400
    # A kill has lost a line and left a part of another.
    kept = kept[:3] + kept[4:]
    file.write_text("".join(kept) + kept[0][:20])
    with ServedEngine(policy) as engine:
        assert run_mse.main([*words, engine.url]) == 0
        assert sum(body["n"] for body in engine.asked) == 400 - len(kept)
        assert file.read_text().startswith("".join(kept))
        assert sorted(keys_of(file)) == sorted(KEYS)
        engine.asked.clear()
        assert run_mse.main([*words, engine.url]) == 0
        assert not engine.asked
        other = ["--set", "sampling.temperature=0.5"]
        complaint = refused(*words, engine.url, *other)
    assert "line 1: drawn of another prompt, model or sampling" in complaint


def law_check(folder):
    checks = json.loads((folder / "checks.json").read_text())["checks"]
    return {check["name"]: check for check in checks}


@pytest.mark.parametrize("temperature", [None, 0.5], ids=["the law", "another"])
def test_a_run_is_drawn_by_the_server_and_checks_its_law(
    temperature, policy, path, tmp_path
):
    with ServedEngine(policy, temperature=temperature) as engine:
        words = ["--out", str(tmp_path), "--set", f"sampling.server={engine.url}"]
        status = run_mse.main(["run", str(path), *words])
        assert sum(body["n"] for body in engine.asked) == 400
    checks = law_check(tmp_path / "small")
    law = checks["drawn law equals differentiated law"]
    assert law["bound"] == 0.2
    assert checks["completions are the policy's"]["ok"] is (temperature is None)
    assert (status, law["ok"]) == ((0, True) if temperature is None else (1, False))
    assert temperature or law["figure"] < 1e-4


@pytest.mark.parametrize("temperature", [None, 0.5], ids=["the law", "another"])
def test_an_advice_is_drawn_by_the_server(temperature, policy, path, tmp_path):
    with ServedEngine(policy, temperature=temperature) as engine:
        probe = load_probe(path, [f"sampling.server={engine.url}"])
        spec = prepare("small", probe, tmp_path / "out", tmp_path)
        found = sample_probe(spec, lambda _: None, budget=40)
        assert [body["n"] for body in engine.asked] == [8] * 5
    assert [check.ok for check in found.checks] == [temperature is None, True]


def test_a_server_is_refused_where_it_cannot_draw(path, refused):
    server = "sampling.server=http://localhost:1"
    message = refused("run", path, "--set", server, "--set", "completions=x.jsonl")
    assert "sampling.server = http://localhost:1: completions are read from" in message
    message = refused("run", path, "--set", "sampling.server=localhost:1")
    assert "sampling.server = 'localhost:1'" in message
    for url, reason in ("localhost:1", "no answer"), ("[", "no JSON (Invalid IPv6 URL"):
        assert reason in refused("draw", path, "--server", f"http://{url}")


def test_an_outline_reads_and_ends_as_the_policy_does(policy, path, tmp_path):
    outline = load_outline(load_probe(path), tmp_path)
    assert outline.end_tokens == policy.end_tokens
    assert outline.vocabulary == policy.vocabulary
    assert outline.model.device.type == "meta"
