"""The parts of a study that a command names: costs, trainings, saved models."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mse_lab.console import COMMAND_PREFIX, show_status
from mse_lab.errors import InputError
from mse_lab.probe.foreign_code import load_extra
from mse_lab.probe.probe_files import load_probe, probe_file
from mse_lab.probe.prompts import load_prompts
from mse_lab.project import PROJECT
from mse_lab.studies.training.files import KEY, StudyFiles
from mse_lab.studies.training.report import study_lines
from mse_lab.studies.training.settings import (
    Study,
    arms_of,
    find_run,
    load_study,
    runs_of,
    study_file,
    trained_estimator,
)


def find_study(name: str, settings: Sequence[str], *, quick: bool) -> tuple[Study, str]:
    """Read a study by its name or file, and check it; also name its folder of results."""
    path = study_file(name, PROJECT)
    study = load_study(path, settings, quick=quick)
    arms = arms_of(study)
    for arm in arms:
        probe_file(arm.training.probe, PROJECT)
        trained_estimator(arm.training)
    piloted = {"group_sizes": study.prediction.group_sizes}
    trained_estimator(arms[0].training.model_copy(update=piloted))
    return study, f"{path.stem}-quick" if quick else path.stem


def describe_costs(study: Study, folder: Path) -> str:
    """Say what a study will cost, and what its finished runs took."""
    probe = load_probe(probe_file(study.probe, PROJECT))
    count = probe.prompts.limit or len(load_prompts(probe.prompts, PROJECT))
    seconds: list[float] = []
    with suppress(InputError):  # Runs with other settings do not count.
        done = StudyFiles(folder).read(list(runs_of(arms_of(study))))
        seconds = list(done.drop_duplicates(KEY).get("seconds", []))
    return "\n".join(study_lines(study, count, probe.sampling.max_new_tokens, seconds))


def _load_trainer(folder: Path) -> None:
    """Load TRL, which takes a while."""
    show_status(f"{folder}: loading torch and TRL")
    load_extra("trl", "train", "train")


def _show_progress(line: str) -> None:
    show_status()
    print(line, file=sys.stderr, flush=True)


def run_missing(study: Study, folder: Path, processes: int, *, fresh: bool) -> None:
    """Run the trainings of a study that are missing."""
    _load_trainer(folder)
    from mse_lab.studies.training.run_study import run_study

    run_study(study, folder, PROJECT, processes=processes, fresh=fresh, tell=_show_progress)
    show_status()


def save_checkpoints(study: Study, name: str, folder: Path) -> str:
    """Repeat one training of a study, and save the model along it; say what is next."""
    run = find_run(arms_of(study), name)
    _load_trainer(folder)
    from mse_lab.studies.training.run_study import save_models

    checkpoints = folder / "checkpoints" / name
    save_models(run, checkpoints, PROJECT)
    show_status()
    return (
        f"next: {COMMAND_PREFIX} advise {study.probe} --G {run.group_size} \\\n"
        f"    --checkpoints '{checkpoints}/checkpoint-*'"
    )
