"""Ways through the whole, from a user's words to files and numbers.

Most are held against one run of three prompts (`project`): whatever happens on the way, and
whichever door it is measured through, its tables are the same to the byte.
"""

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
import transformers
from transformers.integrations import integration_utils

import mse_lab
import run_mse
from models import ROWS, SETTINGS, load_parts, write_adapter
from mse_lab.project import PROJECT as ROOT
from mse_lab.results.files import write_file
from mse_lab.results.folder import ResultsFolder
from mse_lab.run.processes import LOCK
from mse_lab.trl import MSECallback
from torchrun_starts import ours, torchrun
from trl_training import LENGTH, advise_apart, load, right, train
from trl_training import ROWS as TRAINED

TABLES = ("mse.csv", "prompts.csv", "laws.csv")
QUIET = {**SETTINGS, "name": "small", "progress": False}


def tables_of(folder):
    return {name: (Path(folder) / name).read_bytes() for name in TABLES}


def times_of(*folders):
    return {path: path.stat().st_mtime_ns for one in folders for path in one.rglob("*")}


def same_tables(result, folder, scratch):
    """Whether tables in memory are, once written, those of a folder."""
    for name, table in result.tables.items():
        write_file(scratch / name, table)
        assert (scratch / name).read_bytes() == (folder / name).read_bytes(), name
    return True


def test_run(project, carry_out):
    """It has its tables, its checks hold, and a second start leaves it as it is."""
    folder, before = project / "results/small", times_of(project)
    table = pd.read_csv(folder / "mse.csv")
    assert len(table) == 3 * 2
    assert (table.mse_low <= table.mse_high).all()
    said = carry_out("run", project / "probes/small.yaml", "--out", project / "results")
    assert "finished before" in said
    assert "checks: " in said
    assert "FAILED" not in said
    assert times_of(project) == before


KILLER = """
import os, signal
from mse_lab.data.rewards import integer

seen = set()

def reward(text, prompt):
    seen.add(prompt["id"])
    if len(seen) == 3 and "STRIKE" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    return integer(text, prompt)
"""


def test_kill(project, carry_out, tmp_path, monkeypatch):
    """By SIGKILL while its third prompt is rewarded; started again it measures that one."""
    (tmp_path / "killer.py").write_text(KILLER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["run", str(project / "probes/small.yaml"), "--set=reward=killer:reward"]
    program = [sys.executable, str(ROOT / "run_mse.py")]
    killed = subprocess.run(
        [*program, *words, "--out", "out"],
        env=os.environ | {"STRIKE": "yes"},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(list(Path("out").rglob("*.npz"))) == 2
    assert not Path("out/small/mse.csv").exists()
    assert Path("out/small", LOCK).exists()
    carry_out(*words, "--out", "out")
    # It is tried on the first prompt before the model is loaded.
    assert sys.modules["killer"].seen == {"1", "3"}
    assert tables_of("out/small") == tables_of(project / "results/small")


# What rank 1 does at the second prompt that it is dealt of a probe.
AT_SECOND = """
import os, signal, time
from mse_lab.data.rewards import integer

seen = {"lost": [], "fails": []}

def reward(text, prompt, name):
    own = seen[name]
    if prompt["id"] not in own:
        own.append(prompt["id"])
    if "AMONG_TWO" in os.environ and os.environ["RANK"] != "1":
        time.sleep(0.1)
    return os.environ.get("RANK") == "1" and len(own) == 2

def lost(text, prompt):
    if reward(text, prompt, "lost") and "LOSE_ONE" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    return integer(text, prompt)

def fails(text, prompt):
    if reward(text, prompt, "fails"):
        raise ZeroDivisionError("no such thing")
    return integer(text, prompt)
"""


@pytest.mark.slow
def test_two_processes(write_probe, tmp_path, monkeypatch):
    """An advice and, of three probes, the second interrupted: the bytes of one process.

    An error of one process at the third ends both, in one line.
    """
    (tmp_path / "plugin.py").write_text(AT_SECOND)
    monkeypatch.syspath_prepend(tmp_path)
    one, two = write_probe("one"), write_probe("two", reward="plugin:lost", seed=1)
    bad = write_probe("bad", reward="plugin:fails")
    alone, out = tmp_path / "alone", tmp_path / "out"
    advice = ["advise", str(one), "--budget", "180", "--out"]
    advised = "one/advice/advice.json"
    assert run_mse.main([*advice, str(alone)]) == 0
    first = (alone / advised).read_bytes()
    assert run_mse.main(["run", str(one), str(two), "--out", str(alone)]) == 0
    runs = ["run", *map(str, (one, two, bad)), "--out", str(out)]
    given = {"folder": f"{tmp_path}{os.pathsep}{ROOT}", "AMONG_TWO": "yes"}
    torchrun(*advice, tmp_path / "advice", **given)
    assert (tmp_path / "advice" / advised).read_bytes() == first
    lost = torchrun(*runs, **given, LOSE_ONE="yes")
    assert lost.stdout.count("results written") == 1
    done = torchrun(*runs, **given)
    # The first probe was measured before the loss.
    assert done.stdout.count("finished before") == 1
    assert done.stdout.count("results written") == 1
    for name in ("one", "two"):
        assert tables_of(out / name) == tables_of(alone / name)
        assert not (out / name / LOCK).exists()
    environment = json.loads((out / "one/environment.json").read_text())
    assert (environment["processes"], environment["threads"]) == (2, 1)
    assert done.returncode != 0  # The process that it ends may leave a file of its lock.
    assert "exitcode  : 2" in done.stderr
    *_, line = ours(done)
    for words in ("reward = plugin:fails", "failed on prompt p", "no such thing"):
        assert words in line
    assert list((out / "bad/shards").glob("*.npz"))


def test_advise(fifty, tmp_path, capsys, carry_out):
    """Within its budget; the advice of a later run, on its own completions, comes first."""
    words = ["advise", str(fifty), "--json", "--out", str(tmp_path / "out")]
    assert run_mse.main([*words, "--budget", "624"]) == 0
    said = capsys.readouterr()
    shown = json.loads(said.out)
    assert shown["completions"] <= 624
    assert shown["stopped"] in ("regret", "budget")
    assert "32 prompts, 384 completions" in said.err
    folder = tmp_path / "out/small/advice"
    assert (folder / "advice.json").is_file()
    assert len(list((folder / "shards").iterdir())) >= 24
    carry_out("run", fifty, "--set=prompts.limit=12", *words[3:])
    assert (folder / "shards").is_dir()
    of_the_run = json.loads(carry_out(*words))
    assert (of_the_run["prompts"], of_the_run["stopped"]) == (12, None)


def test_figure(carry_out, tmp_path, monkeypatch):
    """Of the project's runs, in the folder where one works; the project stays as it is."""
    project = ROOT / "figures", ROOT / "results/tiny"
    monkeypatch.chdir(tmp_path)
    before = times_of(*project)
    said = carry_out("figure")
    assert f"of tiny/base, tiny/instruct, tiny/icl in {ROOT / 'results'}" in said
    carry_out("figure", "--phase", "tiny/base")
    for _ in range(2):  # What lies there now is no run.
        carry_out("advise", "tiny/base")
    assert times_of(*project) == before
    names = ("figures/figure4.pdf", "results/tiny/base/phase.png")
    assert all((tmp_path / name).stat().st_size for name in names)


BUDGET = 192
LOGGED = (
    *("best_group_size", "best_group_size_low", "best_group_size_high", "progress"),
    *("noise_scale", "zero_variance_groups", "rho", "value", "step"),
    *("alpha", "lam", "cost_over_best"),
)


class Kept(transformers.TrainerCallback):
    """A reporter that keeps what it is given."""

    lines: list = []  # noqa: RUF012 - transformers makes one of it

    def on_log(self, args, state, control, logs=None, **given):
        """Keep a line."""
        self.lines.append((state.global_step, dict(logs)))


def test_callback(tmp_path, monkeypatch):
    """The training is the same bit for bit, and its log has the numbers, as reporters do.

    Measured before steps 1 and 3, in their lines of the log, beside TRL's own.
    """
    pytest.importorskip("trl", reason="needs the extra train")
    callback = MSECallback(TRAINED, right, every=2, budget=BUDGET, share=1.0)
    monkeypatch.setitem(integration_utils.INTEGRATION_TO_CALLBACK, "kept", Kept)
    monkeypatch.setattr(Kept, "lines", [])
    trainer, screen = train(tmp_path, [callback], max_steps=3, report_to=["kept"])
    lines, end = list(Kept.lines), torch.get_rng_state()
    without, _ = train(tmp_path, [], max_steps=3)
    assert torch.equal(end, torch.get_rng_state())
    weights, start = trainer.model.state_dict(), load()["model"].state_dict()
    plain = without.model.state_dict()
    assert all(torch.equal(weights[name], plain[name]) for name in plain)
    assert not all(torch.equal(weights[name], start[name]) for name in start)
    assert (callback.measured, callback.skipped) == (2, 0)
    history = [line for line in trainer.state.log_history if "reward" in line]
    reported = {step: line for step, line in lines if "reward" in line}
    alone = [line for line in without.state.log_history if "reward" in line]
    for line, other in zip(history, alone, strict=True):
        names = {name for name in line if name.startswith("mse/")}
        due = line["step"] % 2 == 1
        assert names - {"mse/steps_saved"} == {f"mse/{key}" for key in LOGGED if due}
        assert all(reported[line["step"]][name] == line[name] for name in names)
        # Reporters such as tensorboard leave out what is no plain number.
        assert all(isinstance(line[name], int | float) for name in names)
        assert line.keys() - names == other.keys()
        if due:
            assert line["mse/step"] == line["step"] - 1
    assert screen.count("'mse/best_group_size'") == 2
    assert re.search("mse_lab: step 0: (Keep|Set|Cannot tell whether) num", screen)
    assert "mse_lab: 2 measurements took " in screen
    assert "0 were skipped" in screen
    assert_that_of_advise(trainer.state.log_history[0])


def assert_that_of_advise(found):
    """Of the untrained model, asked about eight completions a step in groups of two."""
    prompts = [
        {"id": str(at), "problem": row["prompt"], "answer": row["answer"]}
        for at, row in enumerate(TRAINED)
    ]
    training = {"num_generations": 2, "per_device_train_batch_size": 8}
    training |= {"gradient_accumulation_steps": 1}
    given = {"sampling": {"max_new_tokens": LENGTH}, "training": training}

    def reward(text, row):
        return float(text.strip() == row["answer"])

    advice = advise_apart(*load().values(), prompts, reward, budget=BUDGET, **given)
    assert advice.completions_per_step == 8
    expected = {
        "best_group_size": advice.best_group_size,
        "best_group_size_low": advice.low,
        "value": advice.mean_reward,
        "progress": advice.progress_at(8).value,
        "noise_scale": advice.noise_scale.value,
        "alpha": advice.ladder[-1].alpha,
    }
    assert {key: found[f"mse/{key}"] for key in expected} == pytest.approx(
        expected, rel=1e-6
    )
    step = 8 / (8 + found["mse/noise_scale"])
    assert found["mse/progress"] == pytest.approx(step, rel=1e-6)


def test_adapter(project, checkpoint, carry_out, tmp_path):
    """From its folder by the command, and as PEFT's own model from Python."""
    adapter = write_adapter(checkpoint, tmp_path / "adapter")
    probe, setting = project / "probes/small.yaml", f"--set=model.adapter={adapter}"
    carry_out("run", probe, setting, "--out", tmp_path)
    import peft

    model, tokenizer = load_parts(checkpoint)
    with warnings.catch_warnings(action="ignore"):
        model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=True)
    found = mse_lab.measure(model, tokenizer, ROWS, "integer", **QUIET)
    assert same_tables(found, tmp_path / "small", tmp_path)
    other = tables_of(project / "results/small")
    assert tables_of(tmp_path / "small")["prompts.csv"] != other["prompts.csv"]


def test_supplied_completions(project, carry_out, tmp_path):
    """A run's own, given back to it."""
    own, probe = project / "results/small", project / "probes/small.yaml"
    given = f"--set=completions={own / 'completions.jsonl'}"
    said = carry_out("run", probe, given, "--out", tmp_path)
    assert "need not be the tokens that were drawn" in " ".join(said.split())
    assert tables_of(tmp_path / "small") == tables_of(own)


def test_python(project, checkpoint, tmp_path, monkeypatch, capfd):
    """A model in memory: tables, checks and warnings; nothing is written or shown."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    parts = load_parts(checkpoint)
    capfd.readouterr()
    found = mse_lab.measure(*parts, ROWS, "integer", **QUIET)
    assert capfd.readouterr() == ("", "")
    assert not list((tmp_path / "empty").iterdir())
    written = ResultsFolder(project / "results/small")
    assert same_tables(found, written.path, tmp_path)
    assert found.noted == replace(written.read_checks(), seals={})
    assert found.warnings
