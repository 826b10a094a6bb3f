"""A study from end to end, of three steps: predicted first, killed, gone on, judged."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from transformers import AutoModelForCausalLM

import run_mse

pytest.importorskip("trl", reason="needs TRL: pip install -e '.[train]'")

from mse_lab.errors import InputError
from mse_lab.studies.training import run_study as studies
from mse_lab.studies.training.settings import load_study
from mse_lab.studies.training.task import load_task

ROOT = Path(__file__).resolve().parents[3]

STUDY = {
    "budget": 8,
    "group_sizes": [2, 4, 8],
    "steps": 3,
    "seeds": 2,
    "evaluation": {"steps": [1, 3], "completions": 16},
    "prediction": {"group_sizes": [2], "seeds": 2, "reference": 64, "replicate": 16},
}


@pytest.fixture
def study(write_probe, tmp_path):
    """A study's file."""
    path = tmp_path / "short.yaml"
    path.write_text(yaml.safe_dump(STUDY | {"probe": str(write_probe())}))
    return path


class Killed(Exception):
    pass


def kill_after(monkeypatch, name, count):
    """Let the work of a run, or of a pilot, fail the so many-th time."""
    original, done = getattr(studies, name), []

    def work(run, **given):
        if len(done) == count:
            raise Killed
        done.append(run.name)
        return original(run, **given)

    monkeypatch.setattr(studies, name, work)
    return done


def train(study, out, *words):
    return run_mse.main(["train", str(study), "--out", str(out), *words])


def test_a_study_that_was_killed_goes_on_to_the_same_numbers(
    study, tmp_path, monkeypatch, capsys
):
    with monkeypatch.context() as patched:
        kill_after(patched, "train_run", 2)
        assert train(study, tmp_path / "out") != 0
    folder = tmp_path / "out/short"
    predicted = (folder / "prediction.json").read_bytes()
    # What has run so far is judged, and nothing is trained.
    capsys.readouterr()
    assert train(study, tmp_path / "out", "--so-far") == 0
    assert "not judged: 4 seeds of two group sizes are needed" in capsys.readouterr().out
    assert len(pd.read_csv(folder / "runs.csv")) == 2 * 2
    done = kill_after(monkeypatch, "train_run", 99)
    assert train(study, tmp_path / "out") == 0
    assert done == ["main-G8-seed0", "main-G2-seed1", "main-G4-seed1", "main-G8-seed1"]
    assert (folder / "prediction.json").read_bytes() == predicted
    table = pd.read_csv(folder / "runs.csv")
    assert len(table) == 3 * 2 * 2
    assert table["value"].between(0, 1).all()
    verdict = json.loads((folder / "verdict.json").read_text())
    assert [row["step"] for row in verdict["steps"]] == [1, 3]
    assert (folder / "training.png").stat().st_size > 0
    # What is run again alone, in a process that has trained others, is the same.
    lost = (table["group_size"] == 4) & (table["seed"] == 0)
    table[~lost].to_csv(folder / "runs.csv", index=False)
    assert train(study, tmp_path / "out") == 0
    again = pd.read_csv(folder / "runs.csv").drop(columns="seconds")
    pd.testing.assert_frame_equal(again, table.drop(columns="seconds"))
    # A run is kept on its way, for `advise --checkpoints`: the model at the same steps.
    capsys.readouterr()
    assert train(study, tmp_path / "out", "--save", "main-G4-seed0") == 0
    place = folder / "checkpoints/main-G4-seed0"
    assert f"--checkpoints '{place}/checkpoint-*'" in capsys.readouterr().out
    task = load_task(yaml.safe_load(study.read_text())["probe"], tmp_path)
    for step, value in table[lost][["step", "value"]].to_numpy():
        task.follow(AutoModelForCausalLM.from_pretrained(place / f"checkpoint-{step:.0f}"))
        assert task.mean_reward(16) == pytest.approx(value, abs=1e-9)
    # Other settings are refused, and so are runs without a prediction; nothing is lost.
    capsys.readouterr()
    kept = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    changed = ["train", str(study), "--out", str(tmp_path / "out"), "--set", "eta=0.5"]
    assert run_mse.main(changed) == 2
    assert "has other settings; start over with --fresh" in capsys.readouterr().err
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(prompts.read_text().replace("p0", "p9"))
    assert train(study, tmp_path / "out") == 2
    assert (
        f"short: prompts of {tmp_path / 'small.yaml'} is not what"
        in capsys.readouterr().err
    )
    prompts.write_text("{")
    assert train(study, tmp_path / "out", "--fresh") == 2
    assert kept == {name: (folder / name).read_bytes() for name in kept}
    (folder / "prediction.json").unlink()
    files = studies.StudyFiles(folder)
    run = studies.StudyRun(load_study(study), files, tmp_path, 1, print)
    with pytest.raises(InputError, match=r"made before anything is trained"):
        run.train()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "etta=1"], "unknown key etta; did you mean eta?"),
        (["--set", "estimator=grop"], "unknown grop; did you mean grpo?"),
        (["--set", "estimator=oracle"], "oracle looks at what no training knows"),
        (["--set", "group_sizes=[1, 2]"], "grpo needs groups of 2 or more"),
        (["--set", "probe=tiny/bas"], "no probe tiny/bas; did you mean tiny/base?"),
        (
            ["--save", "main-G4-seed99"],
            "no run main-G4-seed99; did you mean main-G4-seed9?",
        ),
        (["--processes", "0"], "'0' is no number of processes, such as 2"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(refused, tmp_path, words, said):
    out = tmp_path / "out"
    assert said in refused("train", "group-size", *words, "--out", str(out))
    assert not out.exists()


def test_only_the_study_on_the_first_page_draws_there(tmp_path, monkeypatch, capsys):
    """Another study, or another place, leaves figures/ as it is."""
    monkeypatch.chdir(tmp_path)
    for name in ("group-size", "group-size-worked"):
        shutil.copytree(ROOT / "results" / name, tmp_path / "results" / name)
    assert run_mse.main(["train", "group-size-worked", "--so-far"]) == 0
    assert (tmp_path / "results/group-size-worked/training.png").stat().st_size > 0
    assert not (tmp_path / "figures").exists()
    assert run_mse.main(["train", "group-size", "--so-far"]) == 0
    assert (tmp_path / "figures/training.png").stat().st_size > 0


def test_what_the_papers_setting_takes_is_said_without_its_model(capsys):
    assert run_mse.main(["train", "qwen-gsm8k", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "30   24,576,000" in said
    assert max(map(len, said.splitlines())) <= 80
