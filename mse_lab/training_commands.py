"""The commands about training: theory, along, train; as `commands`."""

from __future__ import annotations

# Late imports, as in `commands`.
import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mse_lab.command_line import RESULTS, ROOT
from mse_lab.commands import load_probes, share
from mse_lab.console import TYPED, show_status, writing
from mse_lab.errors import InputError

if TYPE_CHECKING:
    from mse_lab.probe.study import Study
    from mse_lab.run.along import Stage
    from mse_lab.run.processes import Processes


def train(arguments: argparse.Namespace) -> int:
    """Carry out a study: predict, train, judge, draw; or what the words ask for instead."""
    from mse_lab.probe.probe_files import probe_file
    from mse_lab.probe.study import arms_of, load_study, study_file
    from mse_lab.report.training_report import write_training
    from mse_lab.train.trained_estimator import trained_estimator

    path = study_file(arguments.study, ROOT)
    study = load_study(path, arguments.set, quick=arguments.quick)
    arms = arms_of(study)
    for arm in arms:
        probe_file(arm.training.probe, ROOT)
        trained_estimator(arm.training)
    piloted = {"group_sizes": study.prediction.group_sizes}
    trained_estimator(arms[0].training.model_copy(update=piloted))
    folder = arguments.out / (path.stem + "-quick" * arguments.quick)
    if arguments.dry_run:
        return price(study, folder)
    if arguments.save:
        return save(study, arguments.save, folder)
    if not arguments.so_far:
        carry_out(study, folder, arguments.processes, fresh=arguments.fresh)
    # As Figure 4's, the figure on the first page lies beside all results; no other may
    # take its place.
    first = folder == RESULTS / "group-size" and arguments.study == "group-size"
    print("\n".join(write_training(folder, study, Path("figures") if first else folder)))
    return 0


def price(study: Study, folder: Path) -> int:
    """Say what a study will take, and what its runs took that are done."""
    from mse_lab.probe.probe_files import load_probe, probe_file
    from mse_lab.probe.prompts import load_prompts
    from mse_lab.probe.study import arms_of, runs_of
    from mse_lab.report.training_report import study_lines
    from mse_lab.results.study_files import KEY, StudyFiles

    probe = load_probe(probe_file(study.probe, ROOT))
    count = probe.prompts.limit or len(load_prompts(probe.prompts, ROOT))
    seconds: list[float] = []
    with suppress(InputError):  # Those of other settings tell nothing.
        done = StudyFiles(folder).read(list(runs_of(arms_of(study))))
        seconds = list(done.drop_duplicates(KEY).get("seconds", []))
    print("\n".join(study_lines(study, count, probe.sampling.max_new_tokens, seconds)))
    return 0


def load_trainer(folder: Path) -> None:
    """Load the extra, which takes a while; `folder` is whose command it is."""
    from mse_lab.probe.foreign_code import load_extra

    show_status(f"{folder}: loading torch and TRL")
    load_extra("trl", "train", "train")


def carry_out(study: Study, folder: Path, processes: int, *, fresh: bool) -> None:
    """Carry out the runs of a study that are missing."""
    load_trainer(folder)
    from mse_lab.train.run_study import run_study

    run_study(study, folder, ROOT, processes=processes, fresh=fresh, tell=tell)
    show_status()


def save(study: Study, name: str, folder: Path) -> int:
    """Carry out one run of a study once more; keep the model along it."""
    from mse_lab.probe.study import arms_of, find_run

    run = find_run(arms_of(study), name)
    load_trainer(folder)
    from mse_lab.train.run_study import save_models

    place = folder / "checkpoints" / name
    save_models(run, place, ROOT)
    show_status()
    print(
        f"next: {TYPED} along {study.probe} --from-start --group-size {run.group_size} \\"
    )
    print(f"    --checkpoints '{place}/checkpoint-*'")
    return 0


def tell(line: str) -> None:
    """Say how far a long command is, a line each."""
    show_status()
    print(line, file=sys.stderr, flush=True)


def theory(arguments: argparse.Namespace) -> int:
    """Put the paper's statements about training to bandits that can be enumerated."""
    from mse_lab.report.theory_report import theory_screen, write_theory
    from mse_lab.theory.effort import Effort
    from mse_lab.theory.study import study

    # What takes minutes is not to be lost to what takes seconds, nor to a folder.
    folder = arguments.out or RESULTS / "theory"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    found = study(Effort(arguments.seed), lambda part: show_status(f"theory: {part}"))
    show_status()
    write_theory(found, folder, folder if arguments.out else Path("figures"))
    print(theory_screen(found))
    print(f"{folder}: statements.csv, curves and the figure written")
    return 0


def along(arguments: argparse.Namespace) -> int:
    """Measure a probe along a training run; 1 if a built-in check failed."""
    return share(measure_checkpoints, arguments)


def measure_checkpoints(arguments: argparse.Namespace, processes: Processes) -> int:
    """Measure a probe at every checkpoint, in one of the processes that share it."""
    from mse_lab.probe.trained_checkpoints import find_checkpoints

    arguments.probes = [arguments.probe]
    [(name, probe)] = load_probes(arguments)
    checkpoints = find_checkpoints(arguments.checkpoints, from_start=arguments.from_start)
    if processes.first:
        show_status(f"{name}: loading torch and the model")
    from mse_lab.answers.along import Along, refuse_beforehand
    from mse_lab.answers.measured_run import read_run
    from mse_lab.report.along_report import write_along
    from mse_lab.results.checks import hold
    from mse_lab.run.along import ALONG, measure_along

    refuse_beforehand(len(checkpoints), arguments.group_size, probe.pool)
    folder, fresh = arguments.out / name, arguments.fresh
    tell = announce_stage if processes.first else lambda stage: None
    stages = measure_along(
        name, probe, checkpoints, folder, ROOT,
        fresh=fresh, processes=processes, tell=tell,
    )  # fmt: skip
    if processes.first:
        runs = tuple(read_run(one.folder) for one in stages)
        steps = tuple(one.step for one in stages)
        show_status()
        print(write_along(Along(steps, runs, arguments.group_size), folder / ALONG))
    return int(not all(hold(one.outcome.checks) for one in stages))


def announce_stage(stage: Stage) -> None:
    """Say on the screen that a checkpoint is measured, and what is to be known of it."""
    from mse_lab.results.checks import summary

    show_status()
    state = "finished before" if stage.outcome.found else "measured"
    print(f"{stage.folder}: {state}; {summary(stage.outcome.checks)}")
    for warning in stage.outcome.warnings:
        print(f"warning: {warning}")
