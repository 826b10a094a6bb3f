"""What is said of a study, at 80 columns and in whole words."""

import json

import pytest

from mse_lab.answers.predicted_group_size import Predicted
from mse_lab.errors import InputError
from mse_lab.probe.study import arms_of
from mse_lab.report.training_report import study_lines, write_training
from mse_lab.results.files import write_table
from mse_lab.results.study_files import StudyFiles
from simulated_study import STUDY, predict, simulate


def write(folder, table):
    files = StudyFiles(folder)
    write_table(folder / "runs.csv", table)
    found = [one._asdict() for one in predict(4).values()]
    files.write_prediction(arms_of(STUDY)[0], {"predicted": found})


def test_a_study_is_told_and_drawn(tmp_path):
    write(tmp_path, simulate())
    said = list(write_training(tmp_path, STUDY, tmp_path))
    assert said[0].startswith("predicted G*: 5 (")
    [main] = [line for line in said if line.startswith("main, N = 128, step 10")]
    assert main.endswith("A holds, B holds, C holds")
    [small] = [line for line in said if line.startswith("small-step, N = 128, step 10")]
    assert "cannot tell" in small
    assert any(line.startswith("better less the main grid") for line in said)
    assert (tmp_path / "training.pdf").is_file()
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert len(verdict["steps"]) == 4 * 2


def test_few_seeds_are_told(tmp_path):
    write(tmp_path, simulate(seeds=2))
    said = list(write_training(tmp_path, STUDY, tmp_path))
    assert any("2 seeds at every group size; 3 are needed" in line for line in said)


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(InputError, match="no run is done"):
        list(write_training(tmp_path, STUDY, tmp_path))


def test_what_it_takes():
    """12 seeds of 6 sizes, 10 steps of 128: 92,160 completions at 8 operations each."""
    said = list(study_lines(STUDY, 60))
    main = next(line for line in said if line.startswith("main"))
    assert main.split() == ["main", "128", "10", "72", "92,160"]
    total = 92160 * 3 + 92160 // 2 + 84 * 1280
    training = next(line for line in said if line.startswith("  training"))
    assert training == f"  training: {total:,} completions, {total * 8e-6:.3g}"


def test_predictions_survive_json():
    one = predict(4)[10]
    assert Predicted.restore(json.loads(json.dumps(one._asdict()))).best == one.best
