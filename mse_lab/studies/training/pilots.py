"""Pilots: trainings before those of the study, on which c1, c2 and c3 are measured.

The policy is measured at step 0 and at each evaluation step, by `mse_lab.measure`. Pilots
of one seed share their uniforms, and at step 0 the model, so they count as one trial
whatever their group sizes. Seeds are independent; their spread includes the noise of the
measurement.
"""

from pathlib import Path
from typing import Any

import mse_lab
from mse_lab.studies.training.files import Constants
from mse_lab.studies.training.settings import PILOT, Arm, Prediction, Run
from mse_lab.studies.training.task import Task, load_task
from mse_lab.studies.training.trainer import train

# The seeds of pilots start here, so that no pilot is one of the runs that are judged.
FIRST_SEED = 1_000_000


def pilots_of(arm: Arm, prediction: Prediction) -> list[Run]:
    """Give the pilots of the main grid, seeds outermost."""
    pilot = Arm(PILOT, arm.training, arm.evaluation, prediction)
    seeds = range(FIRST_SEED, FIRST_SEED + prediction.seeds)
    return [Run(pilot, size, seed) for seed in seeds for size in prediction.group_sizes]


def measure_constants(
    task: Task, model: Any, prediction: Prediction, seed: int
) -> tuple[float, float, float]:
    """Measure c1, c2 and c3 of a model over the prompts that it is trained on.

    These prompts are the whole population of a training that draws them with replacement,
    so c1 is their variance: (P-1)/P times that of the distribution they are a sample of.
    """
    probe, prompts = task.probe, task.prompts[: prediction.prompts]
    records = {prompt.id: prompt.record for prompt in prompts}

    def reward(text: str, row: Any) -> float:
        return task.reward(text, records[row["id"]])

    result = mse_lab.measure(
        model,
        task.policy.tokenizer,
        [{**prompt.record, "problem": prompt.text} for prompt in prompts],
        # A reward of ours may give up a comparison; `measure` then counts it as 0.
        reward if ":" in probe.reward else probe.reward,
        group_sizes=prediction.replicate // 2,
        estimators="grpo",
        sampling=probe.sampling.model_dump(),
        pool={"reference": prediction.reference, "replicate": prediction.replicate},
        chat=probe.prompts.chat,
        seed=seed,
        progress=False,
    )
    constants, share = result.population.constants, 1 - 1 / len(prompts)
    c1, c2, c3 = constants.c1, constants.c2, constants.c3
    return share * c1.item(), c2.item(), c3.item()


def run_pilot(run: Run, prediction: Prediction, root: Path) -> list[Constants]:
    """Train a pilot; measure the constants along it."""
    task, rows = load_task(run.arm.training.probe, root), list[Constants]()

    def look(step: int, model: Any) -> None:
        constants = measure_constants(task, model, prediction, run.seed)
        rows.append(Constants(step, *constants))

    train(run, task, [0, *run.arm.evaluation.steps], look)
    return rows
