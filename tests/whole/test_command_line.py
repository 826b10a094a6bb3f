"""A finished run as the commands find it: changed, failed, or to be measured again."""

import json
import shutil

from safetensors.torch import load_file, save_file

import run_mse
from mse_lab.policy import sampling


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


def test_what_has_changed_is_noticed(write_probe, checkpoint, tmp_path, carry_out, refused):
    """A setting, the prompts, or the checkpoint at its path, of a finished run."""
    model = shutil.copytree(checkpoint, tmp_path / "model")
    words = "run", write_probe(model={"path": str(model), "device": "cpu"})
    words += "--out", tmp_path / "out"
    carry_out(*words)
    assert "seed is 0 there, 1 here" in refused(*words, "--set", "seed=1")
    prompts = tmp_path / "prompts.jsonl"
    before = prompts.read_text()
    prompts.write_text(before.replace('"answer": 2', '"answer": 1', 1))
    assert "it began with another set of prompts" in refused(*words)
    prompts.write_text(before)
    weights = load_file(model / "model.safetensors")
    weights["model.norm.weight"][0] += 1
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    message = refused(*words)
    assert "it began with another model" in message
    assert "--fresh" in message
    assert (tmp_path / "out/small/mse.csv").exists()


def test_fresh_drops_nothing_before_the_model_is_known_to_load(
    project, tmp_path, carry_out, refused
):
    out = shutil.copytree(project / "results", tmp_path / "out")
    before = (out / "small/mse.csv").read_bytes()
    words = ("run", project / "probes/small.yaml", "--out", out, "--fresh")
    assert "no config.json" in refused(*words, "--set", f"model.path={tmp_path}")
    assert (out / "small/mse.csv").read_bytes() == before
    carry_out(*words, "--set", "seed=3")
    assert (out / "small/mse.csv").read_bytes() != before
