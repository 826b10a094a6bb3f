"""A study: pilots -> prediction -> runs, each kept when it ends; a kill loses one run."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mse_lab.console import writing
from mse_lab.run.processes import lock
from mse_lab.studies.training.files import Seen, StudyFiles
from mse_lab.studies.training.origin import origins_of
from mse_lab.studies.training.pilots import pilots_of, run_pilot
from mse_lab.studies.training.predicted_group_size import predict
from mse_lab.studies.training.settings import (
    Arm,
    Prediction,
    Run,
    Study,
    arms_of,
    dump_study,
    runs_of,
)
from mse_lab.studies.training.task import Task, load_task, with_prompts
from mse_lab.studies.training.trainer import train
from mse_lab.studies.training.verdict import PROMPTS
from mse_lab.studies.training.workers import each

Tell = Callable[[str], None]


def evaluator(arm: Arm, task: Task, root: Path) -> Callable[[int], Seen]:
    """Give what measures J at a step: over the prompts, and over held-out ones."""
    evaluation = arm.evaluation
    source, completions = evaluation.held_out, evaluation.completions
    # Both share the policy.
    held_out = with_prompts(task, source, root) if source else None

    def evaluate(step: int) -> Seen:
        other = held_out.mean_reward(completions) if held_out else float("nan")
        return Seen(step, task.mean_reward(completions), other)

    return evaluate


def carry_out(run: Run, root: Path) -> list[Seen]:
    """Train one run; give what was seen of it at the evaluation's steps."""
    task, seen = load_task(run.arm.training.probe, root), list[Seen]()
    evaluate = evaluator(run.arm, task, root)

    def look(step: int, model: Any) -> None:
        task.follow(model)
        seen.append(evaluate(step))

    train(run, task, run.arm.evaluation.steps, look)
    return seen


def start_of(arm: Arm, root: Path) -> dict[str, float]:
    """Measure J of the checkpoint that nothing has changed yet: prompts -> J."""
    seen = evaluator(arm, load_task(arm.training.probe, root), root)(0)._asdict()
    found = {prompts: seen[column] for prompts, column in PROMPTS.items()}
    return {prompts: value for prompts, value in found.items() if not math.isnan(value)}


def save_models(run: Run, folder: Path, root: Path) -> None:
    """Train one run; save the model at the evaluation's steps, as trainers do."""
    task = load_task(run.arm.training.probe, root)

    def look(step: int, model: Any) -> None:
        place = folder / f"checkpoint-{step}"
        with writing(place):
            model.save_pretrained(place)
            task.policy.tokenizer.save_pretrained(place)

    train(run, task, run.arm.evaluation.steps, look)


@dataclass(frozen=True)
class Bench:
    """Where a study's runs are kept, how many are carried out at once, and who is told."""

    files: StudyFiles
    root: Path
    processes: int
    tell: Tell

    def complete(self, runs: Sequence[Run], work: Callable[[Run], Any], what: str) -> None:
        """Carry out the runs that are missing."""
        todo = self.files.missing(runs)
        left = len(todo)
        for run, rows, seconds in each(work, todo, self.processes):
            self.files.keep(run, rows, seconds)
            left -= 1
            self.tell(f"{run.name}: {seconds:.0f} s; {left} {what} left")

    def refuse_other(self, arms: Sequence[Arm], prediction: Prediction) -> None:
        """See that what is there is of these settings, before a line is written.

        Raises:
            InputError: It is of others.
        """
        self.files.read(pilots_of(arms[0], prediction))
        self.files.read(list(runs_of(arms)))
        if self.files.has_prediction():
            self.files.read_prediction(arms[0])

    def pilot(self, arm: Arm, prediction: Prediction) -> None:
        """Carry out the main grid's pilots; write what they predict, and J at the start."""
        pilots = pilots_of(arm, prediction)
        work = partial(run_pilot, prediction=prediction, root=self.root)
        self.complete(pilots, work, "pilots")
        predicted = predict(self.files.read(pilots))
        start = {"start": start_of(arm, self.root)}
        self.files.write_prediction(arm, predicted | start)

    def train(self, arms: Sequence[Arm]) -> None:
        """Carry out all runs.

        Raises:
            InputError: Nothing was predicted before, or it was for other settings.
        """
        self.files.read_prediction(arms[0])
        work = partial(carry_out, root=self.root)
        self.complete(list(runs_of(arms)), work, "runs")


def run_study(
    study: Study, folder: Path, root: Path, *, processes: int, fresh: bool, tell: Tell
) -> None:
    """Predict, then train all arms of a study, or go on where an earlier start stopped.

    Raises:
        InputError: Something of the user's is at fault; nothing is lost.
    """
    bench = Bench(StudyFiles(folder), root, processes, tell)
    arms, files = arms_of(study), bench.files
    # What cannot be read is told before anything is cleared.
    origins = origins_of(arms, root)
    with lock(folder):
        if fresh:
            files.clear()
        bench.refuse_other(arms, study.prediction)
        files.claim(origins)
        files.write_study(dump_study(study))
        if not files.has_prediction():
            bench.pilot(arms[0], study.prediction)
        bench.train(arms)
