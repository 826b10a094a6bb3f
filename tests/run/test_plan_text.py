"""A plan in words and in JSON: what is shown, and how what is not known is."""

import json

import numpy as np

import run_mse
from mse_lab.measurement.memory import Fallbacks
from mse_lab.probe.probe_files import load_probe
from mse_lab.run.plan import plan_probe
from mse_lab.run.plan_text import plan_json
from mse_lab.scores.score_block import Scoring
from plans import said


def test_the_terminal(write_probe, tmp_path, capsys):
    assert run_mse.main(["plan", str(write_probe()), "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("small: 5 prompts of 1 to 4 tokens, 64 + 32 completions each")
    assert "\ntotal " in printed
    heads = next(line for line in printed.splitlines() if "share" in line)
    assert heads.split() == ["completions", "tokens", "memory", "time", "share"]
    assert max(map(len, printed.splitlines())) <= 80


def test_json(write_probe, tmp_path, capsys):
    path = write_probe()
    assert run_mse.main(["plan", str(path), "--json", "--out", str(tmp_path / "out")]) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert plan["probe"] == "small"
    assert plan["total"]["completions"] == 5 * 96
    assert plan["rows"][0]["stage"] == "load the model"
    assert plan["seconds_low"] < plan["total"]["seconds"] < plan["seconds_high"]
    assert set(plan["half_widths"]["mse"]) == {"oracle", "vanilla", "grpo"}


def start_at(how):
    """Make a stage start at a way of scoring, if it has it."""
    begin = Fallbacks.__init__

    def start(self, ways, takes, room):
        begin(self, ways, takes, room)
        if how in ways:
            self.index = ways.index(how)

    return start


def test_norms_only_are_said_to_be(probe, tmp_path, monkeypatch):
    monkeypatch.setattr(Fallbacks, "__init__", start_at(Scoring(4, None, True)))
    plan = plan_probe("small", probe, tmp_path / "out", tmp_path)
    assert "norms only: a block of 8 does not fit, only 4 at a time" in said(plan)
    assert "G = 8" not in said(plan)
    assert "by the exact law, at any G: vanilla" in said(plan)
    assert not plan.half_widths.mse


def test_recomputed_layers_are_said_to_be(probe, tmp_path, monkeypatch):
    monkeypatch.setattr(Fallbacks, "__init__", start_at(Scoring(8, 4, True)))
    text = said(plan_probe("small", probe, tmp_path / "out", tmp_path))
    assert (
        "a block of 8 is scored at once, each layer once more for 4 completions at a time"
        in text
    )
    assert "MB would keep all activations" in text


def test_equal_rewards_tell_no_widths(write_probe, tmp_path, monkeypatch):
    """Of estimators that a common reward leaves without an error."""
    (tmp_path / "one_reward.py").write_text("def reward(text, prompt):\n    return 1.0\n")
    monkeypatch.chdir(tmp_path)
    probe = load_probe(write_probe(reward="one_reward:reward"))
    plan = plan_probe("small", probe, tmp_path / "out", tmp_path)
    assert np.isnan(plan.half_widths.mse["oracle"]).all()
    assert np.isfinite(plan.half_widths.mse["vanilla"]).all()
    assert "oracle ? ? ?" in said(plan)
    assert json.loads(plan_json([plan]))[0]["half_widths"]["mse"]["oracle"] == [None] * 3
