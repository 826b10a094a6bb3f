"""The real command line: smoke, kill, resume, and what is told apart."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path

import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

import run_mse
from mse_lab.policy import sampling
from mse_lab.report.probe_list import list_probes
from mse_lab.results import tables
from mse_lab.results.folder import ResultsFolder

ROOT = Path(__file__).resolve().parents[2]
SMOKE = ["--set=prompts.limit=4", "--set=pool.reference=32", "--set=pool.replicate=128"]


@pytest.fixture
def carry_out(capsys):
    """Return a function that runs a command in this process and gives what it printed."""

    def attempt(*words):
        capsys.readouterr()
        status = run_mse.main([*map(str, words)])
        printed = capsys.readouterr()
        assert status == 0, printed.err
        return printed.out

    return attempt


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """An uninterrupted small run of tiny/base, from another working folder."""
    out = tmp_path_factory.mktemp("smoke")
    words = ["run", "tiny/base", *SMOKE, "--out", str(out)]
    with chdir(out), redirect_stdout(io.StringIO()) as printed:
        assert run_mse.main(words) == 0
    return out, printed.getvalue()


def test_smoke_run(smoke):
    out, said = smoke
    table = pd.read_csv(out / "tiny/base/mse.csv")
    assert len(table) == 15
    assert (table.mse_low <= table.mse_high).all()
    assert "checks:" in said
    assert "FAILED" not in said


def test_a_finished_run_is_left_as_it_is(smoke, carry_out):
    out, _ = smoke
    before = (out / "tiny/base/mse.csv").stat().st_mtime_ns
    assert "finished before" in carry_out("run", "tiny/base", *SMOKE, "--out", out)
    assert (out / "tiny/base/mse.csv").stat().st_mtime_ns == before


def test_the_list_says_what_stands(smoke):
    out, _ = smoke
    lines = {line.split()[0]: line for line in list_probes(ROOT, out).splitlines()}
    assert "another configuration" in lines["tiny/base"]
    assert "not run" in lines["tiny/icl"]


def test_answers_need_more_than_tables(refused):
    folder = ROOT / "results/tiny/base"
    if (folder / "pools.npz").exists():
        pytest.skip("the raw results are there: make figure4 was run in this checkout")
    for word in ("claims", "report"):
        assert "tables only; measure it: " in refused(word, folder)


def test_advice_from_tables_that_are_committed(carry_out, tmp_path):
    for name in ("base", "instruct", "icl"):
        shutil.copytree(ROOT / "results/tiny" / name, tmp_path / name)
        (tmp_path / name / "pools.npz").unlink(missing_ok=True)
        said = carry_out("advise", tmp_path / name)
        assert "Set num_generations = 4: it saves " in said
    told_of = json.loads(carry_out("advise", tmp_path / "base", "--json"))
    assert told_of["num_generations"] == 4


def test_the_project_stays_as_it_is_where_one_works_elsewhere(
    carry_out, tmp_path, monkeypatch
):
    """Figures and advice of its runs lie in the working folder, which is no run for it."""

    def times():
        folders = (ROOT / "figures", ROOT / "results/tiny")
        return {path: path.stat().st_mtime_ns for one in folders for path in one.rglob("*")}

    monkeypatch.chdir(tmp_path)
    before = times()
    assert f"of tiny/base, tiny/instruct, tiny/icl in {ROOT / 'results'}" in carry_out(
        "figure"
    )
    carry_out("figure", "--phase", "tiny/base")
    for _ in range(2):
        carry_out("advise", "tiny/base")
    assert times() == before
    names = ("figures/figure4.pdf", "results/tiny/base/phase.png")
    assert all((tmp_path / name).stat().st_size for name in names)


KILLER = """
import os, signal
from mse_lab.probe.rewards import integer

seen = set()

def reward(text, prompt):
    seen.add(prompt["id"])
    if len(seen) == 3 and "STRIKE" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    return integer(text, prompt)
"""


def test_killed_and_started_again_gives_the_same_bytes(
    write_probe, carry_out, tmp_path, monkeypatch
):
    """Killed with SIGKILL while its third prompt is rewarded, in a process of its own."""
    (tmp_path / "killer.py").write_text(KILLER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["run", str(write_probe(reward="killer:reward"))]
    program = [sys.executable, str(ROOT / "run_mse.py")]
    killed = subprocess.run(
        [*program, *words, "--out", "out"],
        env=os.environ | {"STRIKE": "yes"},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    kept = {path: path.stat().st_mtime_ns for path in Path("out").rglob("*.npz")}
    assert len(kept) == 2
    assert not Path("out/small/mse.csv").exists()
    carry_out(*words, "--out", "out")
    assert sys.modules["killer"].seen == {"p2", "p3", "p4"}
    carry_out(*words, "--out", "whole")
    for name in ("mse.csv", "prompts.csv", "laws.csv"):
        found, expected = (Path(one, "small", name) for one in ("out", "whole"))
        assert found.read_bytes() == expected.read_bytes()


def test_another_configuration_is_told_apart(smoke, refused, tmp_path):
    out = tmp_path / "copy"
    shutil.copytree(smoke[0], out)
    words = ("run", "tiny/base", *SMOKE, "--set", "seed=1", "--out", out)
    assert "seed is 0 there, 1 here" in refused(*words)
    assert (out / "tiny/base/mse.csv").exists()


def test_a_failed_check_ends_with_1_after_writing(
    write_probe, tmp_path, monkeypatch, capsys
):
    """A sampler that never draws the least likely token stands for anything unforeseen."""
    honest = sampling.next_log_probabilities

    def warped(*given):
        log_probs = honest(*given)
        worst = log_probs.argmin(-1, keepdim=True)
        return log_probs.scatter(-1, worst, -1e9).log_softmax(-1)

    words = ["run", str(write_probe()), "--out", str(tmp_path / "out")]
    with monkeypatch.context() as patched:
        patched.setattr(sampling, "next_log_probabilities", warped)
        assert run_mse.main(words) == 1
    assert "FAILED" in capsys.readouterr().err
    folder = tmp_path / "out/small"
    assert not json.loads((folder / "checks.json").read_text())["ok"]
    assert (folder / "mse.csv").exists()
    # So it is found, and told again.
    assert run_mse.main(words) == 1


def test_changed_prompts_are_noticed(write_probe, tmp_path, carry_out, refused):
    path, out = write_probe(), tmp_path / "out"
    carry_out("run", path, "--out", out)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(prompts.read_text().replace('"answer": 2', '"answer": 1', 1))
    assert "its prompts have changed" in refused("run", path, "--out", out)


def test_a_changed_checkpoint_is_noticed(
    write_probe, tmp_path, carry_out, refused, checkpoint
):
    """At the same path, in a finished run as in one that was interrupted."""
    folder, out = tmp_path / "model", tmp_path / "out"
    shutil.copytree(checkpoint, folder)
    path = write_probe(model={"path": str(folder), "device": "cpu"})
    carry_out("run", path, "--out", out)
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][0] += 1
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    message = refused("run", path, "--out", out)
    assert "it began with another model" in message
    assert "--fresh" in message


def test_fresh_drops_nothing_before_the_model_is_known_to_load(
    write_probe, tmp_path, carry_out, refused
):
    path, out = write_probe(), tmp_path / "out"
    carry_out("run", path, "--out", out)
    before = (out / "small/mse.csv").read_bytes()
    words = ("run", path, "--out", out, "--fresh")
    assert "no config.json" in refused(*words, "--set", f"model.path={tmp_path}")
    assert (out / "small/mse.csv").read_bytes() == before
    carry_out(*words, "--set", "seed=3")
    assert (out / "small/mse.csv").read_bytes() != before


def test_a_kill_while_results_are_written_leaves_the_run_unfinished(
    write_probe, tmp_path, monkeypatch
):
    """Old tables beside new raw results must not pass for a finished run."""
    path, out = write_probe(), tmp_path / "out"
    words = ["run", str(path), "--out", str(out)]
    assert run_mse.main(words) == 0
    expected = (out / "small/mse.csv").read_bytes()
    (out / "small/pools.npz").unlink()

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tables, "mse_table", stop)
        assert run_mse.main(words) == 130
    assert (out / "small/pools.npz").exists()
    assert not ResultsFolder(out / "small").is_complete()
    assert run_mse.main(words) == 0
    assert (out / "small/mse.csv").read_bytes() == expected
