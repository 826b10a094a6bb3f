"""What is said of a study, at 80 columns and in whole words."""

import json
import re

import pytest

from mse_lab.errors import InputError
from mse_lab.results.files import write_table
from mse_lab.studies.training.files import StudyFiles
from mse_lab.studies.training.report import study_lines, write_training
from mse_lab.studies.training.settings import arms_of
from simulated_study import STUDY, predict, simulate


def write(folder, table):
    files = StudyFiles(folder)
    write_table(folder / "runs.csv", table)
    start = {"training": 0.5, "held-out": 0.45}
    files.write_prediction(arms_of(STUDY)[0], list(predict(4).values()), start)


def lines_of(texts):
    return "\n".join(texts).splitlines()


def test_a_study_is_told_and_drawn(tmp_path):
    write(tmp_path, simulate())
    said = lines_of(write_training(tmp_path, STUDY, tmp_path))
    assert said[0].startswith("predicted G* of 10 steps: 5.0 (")
    assert said[1] == (
        "J before training: 0.500 on training prompts, 0.450 on held-out prompts"
    )
    for prompts in ("training", "held-out"):
        about = f"seeds, {prompts} prompts"
        row = said[said.index(f"main, N = 128, 12 {about}") + 2 + (prompts == "training")]
        assert row.startswith("  10     8  4, 8  4: ")
        assert row.endswith("  holds (8)")
        small = said.index(f"small-step, N = 128, 12 {about}")
        assert said[small + 2].endswith("  cannot tell")
        vanilla = said.index(f"vanilla, N = 128, 12 {about}")
        assert said[vanilla + 2].split()[1:3] == ["1", "1"]
        etas = said.index(f"the best eta of 0.001, 0.015, 0.03 at each G, 5 {about}")
        assert said[etas + 2].split()[:2] == ["10", "16"]
        assert said[etas + 3] == "  eta by G: 0.03 at 2, 4, 8; 0.015 at 16, 32, 64"
        gains = said.index(f"better less main, step 10, {prompts} prompts, by G")
        assert said[gains + 1].split()[0] == "2"
    assert not any(line.startswith("budget-64 less") for line in said)
    assert max(map(len, said[:-2])) <= 80
    assert (tmp_path / "training.pdf").is_file()
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert len(verdict["steps"]) == 5 * 3


def test_few_seeds_are_told(tmp_path):
    write(tmp_path, simulate(seeds=3))
    said = "\n".join(write_training(tmp_path, STUDY, tmp_path))
    assert "not judged: 4 seeds of two group sizes are needed" in said
    assert not re.search("nan|holds$", said, re.MULTILINE)


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(InputError, match="no run is done"):
        list(write_training(tmp_path, STUDY, tmp_path))


def test_what_it_takes():
    """12 seeds of 6 sizes, 10 steps of 128: 92,160 completions at 8 operations a token.

    A token of 10^9 parameters takes 8e9 operations, 8e-5 s at 1e14 a second.
    """
    said = lines_of(study_lines(STUDY, 60, 50, [1800.0, 3600.0]))
    main = next(line for line in said if line.startswith("main"))
    assert main.split() == ["main", "128", "10", "72", "92,160"]
    total = 92160 * 3 + 92160 // 2 + 84 * 1280 + 30 * 1280
    training = next(line for line in said if line.startswith("  training"))
    hours = total * 50 * 8e-5 / 3600
    assert training.split() == ["training", f"{total:,}", f"{hours:.3g}"]
    assert said[-1] == "2 of its runs are done; they took 1.5 h"
    assert not any("done" in line for line in study_lines(STUDY, 60, 50))
