"""`mse-lab train`: a study of training runs: predict, train, judge, draw."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mse_lab.commands.command_line import (
    OPTIONS,
    RESULTS,
    ROOT,
    Parser,
    add_options,
    processes,
)
from mse_lab.console import COMMAND_PREFIX, show_status
from mse_lab.errors import InputError

if TYPE_CHECKING:
    from mse_lab.studies.training.settings import Study

HELP = "a study: does the predicted group size train best?"


def add_arguments(parser: Parser) -> None:
    """Add what the command takes."""
    parser.add_argument("study", metavar="STUDY", help="group-size, or a .yaml file")
    help = "change a setting: eta=0.01"
    parser.add_argument("--set", **OPTIONS["--set"] | {"help": help})
    add_options(parser, "--out")
    help = "the main grid alone, 3 seeds of 60 steps"
    parser.add_argument("--quick", action="store_true", help=help)
    help = "runs at a time, by default 1"
    parser.add_argument("--processes", type=processes, default=1, metavar="N", help=help)
    add_options(parser, "--fresh")
    instead = parser.add_mutually_exclusive_group()
    help = "say what it will take"
    instead.add_argument("--dry-run", action="store_true", help=help)
    help = "train nothing; judge and draw the runs that are done"
    instead.add_argument("--so-far", action="store_true", help=help)
    help = "train one run, such as main-G8-seed0, once more; keep its checkpoints"
    instead.add_argument("--save", metavar="RUN", help=help)


def execute(arguments: Namespace) -> int:
    """Run a study: predict, train, judge, draw; or do what an option asks for instead."""
    from mse_lab.probe.probe_files import probe_file
    from mse_lab.studies.training.report import write_training
    from mse_lab.studies.training.settings import (
        arms_of,
        load_study,
        study_file,
        trained_estimator,
    )

    path = study_file(arguments.study, ROOT)
    study = load_study(path, arguments.set, quick=arguments.quick)
    arms = arms_of(study)
    for arm in arms:
        probe_file(arm.training.probe, ROOT)
        trained_estimator(arm.training)
    piloted = {"group_sizes": study.prediction.group_sizes}
    trained_estimator(arms[0].training.model_copy(update=piloted))
    name = f"{path.stem}-quick" if arguments.quick else path.stem
    folder = arguments.out / name
    if arguments.dry_run:
        return show_costs(study, folder)
    if arguments.save:
        return save_checkpoints(study, arguments.save, folder)
    if not arguments.so_far:
        run_missing(study, folder, arguments.processes, fresh=arguments.fresh)
    # The figure on the first page is this study's alone.
    first = folder == RESULTS / "group-size" and arguments.study == "group-size"
    print("\n".join(write_training(folder, study, Path("figures") if first else folder)))
    return 0


def show_costs(study: Study, folder: Path) -> int:
    """Print what a study will cost, and what its finished runs took."""
    from mse_lab.probe.probe_files import load_probe, probe_file
    from mse_lab.probe.prompts import load_prompts
    from mse_lab.studies.training.files import KEY, StudyFiles
    from mse_lab.studies.training.report import study_lines
    from mse_lab.studies.training.settings import arms_of, runs_of

    probe = load_probe(probe_file(study.probe, ROOT))
    count = probe.prompts.limit or len(load_prompts(probe.prompts, ROOT))
    seconds: list[float] = []
    with suppress(InputError):  # Runs with other settings do not count.
        done = StudyFiles(folder).read(list(runs_of(arms_of(study))))
        seconds = list(done.drop_duplicates(KEY).get("seconds", []))
    print("\n".join(study_lines(study, count, probe.sampling.max_new_tokens, seconds)))
    return 0


def load_trainer(folder: Path) -> None:
    """Load TRL, which takes a while."""
    from mse_lab.probe.foreign_code import load_extra

    show_status(f"{folder}: loading torch and TRL")
    load_extra("trl", "train", "train")


def run_missing(study: Study, folder: Path, processes: int, *, fresh: bool) -> None:
    """Run the trainings of a study that are missing."""
    load_trainer(folder)
    from mse_lab.studies.training.run_study import run_study

    run_study(study, folder, ROOT, processes=processes, fresh=fresh, tell=show_progress)
    show_status()


def save_checkpoints(study: Study, name: str, folder: Path) -> int:
    """Repeat one training of a study; save the model along it."""
    from mse_lab.studies.training.settings import arms_of, find_run

    run = find_run(arms_of(study), name)
    load_trainer(folder)
    from mse_lab.studies.training.run_study import save_models

    checkpoints = folder / "checkpoints" / name
    save_models(run, checkpoints, ROOT)
    show_status()
    along = f"along {study.probe} --from-start --group-size {run.group_size}"
    print(f"next: {COMMAND_PREFIX} {along} \\")
    print(f"    --checkpoints '{checkpoints}/checkpoint-*'")
    return 0


def show_progress(line: str) -> None:
    """Print a line about the progress of a study."""
    show_status()
    print(line, file=sys.stderr, flush=True)
