"""A study: pilots -> prediction -> runs, each kept when it ends; a kill loses one run."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mse_lab.console import writing
from mse_lab.results.files import write_text
from mse_lab.run.processes import lock
from mse_lab.studies.training.files import Evaluated, StudyFiles
from mse_lab.studies.training.origin import origins_of
from mse_lab.studies.training.pilots import pilots_of, run_pilot
from mse_lab.studies.training.predicted_group_size import predict
from mse_lab.studies.training.settings import Arm, Run, Study, arms_of, dump_study, runs_of
from mse_lab.studies.training.task import Task, load_task, with_prompts
from mse_lab.studies.training.trainer import train
from mse_lab.studies.training.verdict import PROMPTS
from mse_lab.studies.training.workers import each

Tell = Callable[[str], None]


def make_evaluation(arm: Arm, task: Task, root: Path) -> Callable[[int], Evaluated]:
    """Return a function that measures J at a step, over both sets of prompts."""
    source = arm.evaluation.held_out
    effort = arm.evaluation.completions, arm.evaluation.prompts
    # Both share the policy.
    held_out = with_prompts(task, source, root) if source else None

    def evaluate(step: int) -> Evaluated:
        other = held_out.mean_reward(*effort) if held_out else math.nan
        return Evaluated(step, task.mean_reward(*effort), other)

    return evaluate


def train_run(run: Run, root: Path) -> list[Evaluated]:
    """Train one run; measure J at the steps of the evaluation."""
    task, rows = load_task(run.arm.training.probe, root), list[Evaluated]()
    evaluate = make_evaluation(run.arm, task, root)

    def look(step: int, model: Any) -> None:
        task.follow(model)
        rows.append(evaluate(step))

    train(run, task, run.arm.evaluation.steps, look)
    return rows


def start_of(arm: Arm, root: Path) -> dict[str, float]:
    """Measure J of the checkpoint before training, by prompts."""
    evaluate = make_evaluation(arm, load_task(arm.training.probe, root), root)
    values = evaluate(0)._asdict()
    start = {prompts: values[column] for prompts, column in PROMPTS.items()}
    return {prompts: value for prompts, value in start.items() if not math.isnan(value)}


def save_models(run: Run, folder: Path, root: Path) -> None:
    """Train one run; save the model at the steps of the evaluation, as trainers do."""
    task = load_task(run.arm.training.probe, root)

    def look(step: int, model: Any) -> None:
        checkpoint = folder / f"checkpoint-{step}"
        with writing(checkpoint):
            model.save_pretrained(checkpoint)
            task.policy.tokenizer.save_pretrained(checkpoint)

    train(run, task, run.arm.evaluation.steps, look)


@dataclass(frozen=True)
class StudyRun:
    """A study that is being run.

    Attributes:
        processes: How many runs are trained at once.
        tell: Called with a line when a run ends.
    """

    study: Study
    files: StudyFiles
    root: Path
    processes: int
    tell: Tell

    def complete(self, runs: Sequence[Run], work: Callable[[Run], Any], what: str) -> None:
        """Run what is missing."""
        todo = self.files.missing(runs)
        for done, (run, rows, seconds) in enumerate(each(work, todo, self.processes), 1):
            self.files.add(run, rows, seconds)
            self.tell(f"{run.name}: {seconds:.0f} s; {len(todo) - done} {what} left")

    def refuse_other_settings(self) -> None:
        """Check that the folder's files have these settings, before a line is written.

        Raises:
            InputError: They have others.
        """
        arms = arms_of(self.study)
        self.files.read(pilots_of(arms[0], self.study.prediction))
        self.files.read(list(runs_of(arms)))
        if self.files.has_prediction():
            self.files.read_prediction(arms[0])

    def predict(self) -> None:
        """Run the main grid's pilots; write what they predict, and J before training."""
        arms, prediction = arms_of(self.study), self.study.prediction
        main = arms[0]
        pilots = pilots_of(main, prediction)
        work = partial(run_pilot, prediction=prediction, root=self.root)
        self.complete(pilots, work, "pilots")
        predicted = list(predict(self.files.read(pilots)).values())
        self.files.write_prediction(main, predicted, start_of(main, self.root))

    def train(self) -> None:
        """Train all runs.

        Raises:
            InputError: Nothing was predicted before, or it was for other settings.
        """
        arms = arms_of(self.study)
        self.files.read_prediction(arms[0])
        self.complete(list(runs_of(arms)), partial(train_run, root=self.root), "runs")


def run_study(
    study: Study, folder: Path, root: Path, *, processes: int, fresh: bool, tell: Tell
) -> None:
    """Predict, then train all arms of a study, or go on where an earlier start stopped.

    Raises:
        InputError: Something of the user's is at fault; nothing is lost.
    """
    run = StudyRun(study, StudyFiles(folder), root, processes, tell)
    # Probes that cannot be read are refused before anything is cleared.
    origins = origins_of(arms_of(study), root)
    with lock(folder):
        if fresh:
            run.files.clear()
        run.refuse_other_settings()
        run.files.claim(origins)
        write_text(folder / "study.yaml", dump_study(study))
        if not run.files.has_prediction():
            run.predict()
        run.train()
