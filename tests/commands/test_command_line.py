"""The words of the command line: understood as they are meant."""

import os
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from mse_lab.commands import command_line, training_options
from mse_lab.commands.cli import parse
from mse_lab.commands.command_line import (
    RESULTS,
    ROOT,
    existing_runs,
    file_to_write,
    output_folder,
)
from mse_lab.config.schema import Training


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The folder of a project, and another one where one works."""
    monkeypatch.setattr(command_line, "ROOT", tmp_path / "project")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "project"


def make_folders(*folders, run=False):
    for folder in map(Path, folders):
        folder.mkdir(parents=True, exist_ok=True)
        if run:
            (folder / "config.yaml").touch()


def test_a_run_is_a_folder_or_a_probe_s_name_or_file(project):
    """What holds a run goes before what does not."""
    make_folders("results/tiny/base", "results/mine", "mine")
    words = ["claims", "tiny/base", "probes/tiny/base.yaml", "mine.yaml"]
    mine, base = Path("results/mine"), Path("results/tiny/base")
    assert existing_runs(parse(words).runs) == [base, base, Path("mine")]
    make_folders(mine, run=True)
    assert existing_runs(["mine", "mine.yaml"]) == [mine, mine]
    make_folders("mine", run=True)
    assert existing_runs(["mine"]) == [Path("mine")]


def test_the_project_s_runs_are_found_from_anywhere(project):
    """After those of the working folder."""
    there, here = project / "results/tiny/base", Path("results/tiny/base")
    make_folders(there, run=True)
    assert existing_runs(["tiny/base"]) == [there]
    make_folders(here, run=True)
    assert existing_runs(["tiny/base"]) == [here]


def test_what_is_made_of_the_project_s_runs_lies_where_one_works():
    there, mine = ROOT / "results/tiny/base", Path("elsewhere/results/tiny/base")
    assert output_folder(there) == RESULTS / "tiny/base"
    assert output_folder(mine) == mine


@pytest.mark.parametrize(
    "kind", ["folder", "new/", "pipe", "link to nothing", "link to a file"]
)
def test_what_is_no_regular_file_is_not_replaced(kind, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link to nothing").symlink_to(tmp_path / "nothing")
    (tmp_path / "link to a file").symlink_to(tmp_path / "file")
    with pytest.raises(ArgumentTypeError, match="names no regular file"):
        file_to_write(f"{tmp_path}/{kind}")


def options(*words, of_probe=None):
    arguments = parse(["advise", "tiny/base", *words])
    return training_options.read_training_options(arguments, of_probe)


def test_all_behind_training_belongs_to_the_trainer():
    """Whatever our own options are called; nothing of it is refused as empty or removed."""
    words = ["n=8", "--out=", "--set", "x", "--help", "--training", "list", ""]
    arguments = parse(["advise", "tiny/base", "--json", "--training", *words])
    assert arguments.training == words
    assert arguments.json
    assert arguments.set == []


def test_options_come_over_what_the_probe_says():
    of_probe = Training(trainer="trl", num_generations=4, beta=0.1)
    assert options(of_probe=of_probe) is of_probe
    changed = options("--G", "6", "--processes", "2", of_probe=of_probe)
    assert changed.model_extra == {"num_generations": 6, "beta": 0.1, "processes": 2}
    other = options("--trainer", "verl", "--training", "a=1", of_probe=of_probe)
    assert (other.words, other.model_extra) == (["a=1"], {})
    assert options("--completions-per-step", "64").completions_per_step == 64
    assert options() is None
