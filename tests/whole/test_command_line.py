"""A finished run as the commands find it: failed, or to be measured again."""

import json
import shutil

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
