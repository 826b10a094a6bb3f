"""Along a training: do the two numbers of a baseline still serve while the policy moves?

    python -m probes.studies.along SETTINGS.yaml [--out DIR]

Trains arms of a study of trainings as its `training` does; before the first step and every
so many steps `mse_lab.advise` measures the live policy, on the prompts that are trained
on. `along.csv` has a row for each training and step: the best baseline at any group size,
and what it costs over the one that is trained with, for the same error in the limit of
small N, with its 95% interval. A training that has its rows is not made again.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import pandas as pd
from pydantic import Field
from transformers import TrainerCallback

import mse_lab
from mse_lab.config.probe_files import parse_as
from mse_lab.config.schema import Section
from mse_lab.console import exit_status_of
from mse_lab.records.plain_text import parse_yaml, read_text
from mse_lab.run.processes import lock
from mse_lab.trl.baseline import Baseline
from probes.studies.training_design import Run, load_settings, runs_of
from probes.studies.training_runs import Task, make_trainer

EXAMPLE = "probes/studies/along-tiny.yaml"


class Along(Section):
    """Trainings that are watched, as a YAML file has them."""

    study: str  # The study of trainings whose arms they are.
    step_size: float
    seeds: list[int]
    every: Annotated[int, Field(ge=1)]
    completions: Annotated[int, Field(ge=1)]  # The most that a look draws.


class Watch(TrainerCallback):
    """Measures the live policy before the first step and every so many after it."""

    def __init__(self, task: Task, run: Run, along: Along) -> None:
        self._task, self._run, self._along = task, run, along
        self.rows: list[dict[str, Any]] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Look before a step's completions are drawn."""
        self._look(state.global_step, given["model"])

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Look at what has been trained."""
        self._look(state.global_step, given["model"])

    def _look(self, step: int, model: Any) -> None:
        if step % self._along.every:
            return
        task, run = self._task, self._run
        one = task.settings.trained(run.estimator)
        baseline = Baseline(one.alpha or 0.0, one.lam, one.weights or "equal", one.over)
        advice = mse_lab.advise(
            model,
            task.policy.tokenizer,
            [{**prompt.record, "problem": prompt.text} for prompt in task.prompts],
            task.probe.reward,
            sampling=task.probe.sampling.model_dump(),
            training={"G": run.group_size, "estimator": baseline.entry},
            budget=self._along.completions,
            seed=run.seed,
            progress=False,
        )
        best = next(row for row in advice.ladder if row.row == "best")
        self.rows.append(
            {
                "estimator": run.estimator,
                "group_size": run.group_size,
                "seed": run.seed,
                "step": step,
                "best_group_size": best.group_size,
                "alpha": best.alpha,
                "lambda": best.lam,
                "cost": best.cost.value,
                "cost_low": best.cost.low,
                "cost_high": best.cost.high,
                "completions": advice.completions,
                "mean_reward": advice.mean_reward,
            }
        )


def watch(run: Run, task: Task, along: Along) -> list[dict[str, Any]]:
    """Train a run; give the row of each look."""
    task.restart()
    callback = Watch(task, run, along)
    with TemporaryDirectory() as folder:
        make_trainer(task, run, folder, callbacks=[callback]).train()
    return callback.rows


def study(along: Along, path: Path) -> None:
    """Train what has no rows yet; append those of each training when it ends."""
    settings = load_settings(Path(along.study))
    task = Task(settings)
    keys = ["estimator", "group_size", "seed"]
    rows = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=keys)
    done = {*rows[keys].itertuples(index=False, name=None)}
    arms = {run.arm: run for run in runs_of(settings)}.values()
    for seed in along.seeds:
        for arm in arms:
            run = arm._replace(step_size=along.step_size, seed=seed)
            if settings.trained(run.estimator).own:
                continue
            if (run.estimator, run.group_size, seed) in done:
                continue
            new = pd.DataFrame(watch(run, task, along))
            new.to_csv(path, mode="a", header=not path.exists(), index=False)
            print(new.to_string(index=False), flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Run a study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("settings", type=Path, metavar="SETTINGS.yaml")
    parser.add_argument("--out", type=Path, metavar="DIR")
    given = parser.parse_args(words)

    def command() -> int:
        text = parse_yaml(read_text(given.settings), str(given.settings))
        along = parse_as(Along, text, str(given.settings), EXAMPLE)
        folder = given.out or Path("results") / given.settings.stem
        with lock(folder):
            study(along, folder / "along.csv")
        return 0

    return exit_status_of(command)


if __name__ == "__main__":
    sys.exit(main())
