"""Pilots: trainings before the study's own, on which c1, c2 and c3 are measured.

At step 0 and at each evaluation step the trained policy is measured like a probe: a
reference in two halves, and a pool for the score norms. Pilots of one seed share their
uniforms, and at step 0 the model: whatever their group sizes, they are one trial. Seeds are
independent, and how they differ holds the noise of the measurement, too.
"""

from pathlib import Path
from typing import Any

from mse_lab.measurement.prompt import measure_prompt
from mse_lab.measurement.subject import make_subject
from mse_lab.mse.budget import Population
from mse_lab.mse.measurement import stack
from mse_lab.policy.policy import Policy
from mse_lab.probe.prompts import load_prompts
from mse_lab.probe.rewards import load_reward
from mse_lab.probe.schema import Pool, Probe
from mse_lab.studies.training.files import Constants
from mse_lab.studies.training.settings import PILOT, Arm, Prediction, Run
from mse_lab.studies.training.task import load_task
from mse_lab.studies.training.trainer import train

# Added to their seeds, so that no pilot is one of the runs that are judged.
FIRST_SEED = 1_000_000


def pilots_of(arm: Arm, prediction: Prediction) -> list[Run]:
    """Give the pilots of the main grid, seeds outermost."""
    pilot = Arm(PILOT, arm.training, arm.evaluation, prediction)
    seeds = range(FIRST_SEED, FIRST_SEED + prediction.seeds)
    return [Run(pilot, size, seed) for seed in seeds for size in prediction.group_sizes]


def _probe_of(probe: Probe, prediction: Prediction, seed: int) -> Probe:
    """Give the probe the pilot's pools, in two blocks, and the pilot's seed."""
    pool = Pool(reference=prediction.reference, replicate=prediction.replicate)
    block, limit = prediction.replicate // 2, prediction.prompts or probe.prompts.limit
    prompts = probe.prompts.model_copy(update={"limit": limit})
    own = {"prompts": prompts, "pool": pool, "group_sizes": [block], "seed": seed}
    return probe.model_copy(update=own)


def measure_constants(probe: Probe, policy: Policy, root: Path) -> tuple[float, ...]:
    """Measure c1, c2 and c3 of a policy over the prompts that it is trained on.

    These are the whole population of a training with replacement, so c1 is their own
    variance: (P-1)/P times that of the distribution they are a sample of.
    """
    prompts = load_prompts(probe.prompts, root)
    subject = make_subject(probe, policy, prompts, load_reward(probe.reward))
    pools = stack([measure_prompt(subject, at).arrays for at in range(len(prompts))])
    found, share = Population(pools).constants, 1 - 1 / len(prompts)
    return share * found.between.item(), found.oracle.item(), found.pairs.item()


def run_pilot(run: Run, prediction: Prediction, root: Path) -> list[Constants]:
    """Train a pilot; measure the constants along it."""
    task = load_task(run.arm.training.probe, root)
    probe, found = _probe_of(task.probe, prediction, run.seed), list[Constants]()

    def look(step: int, model: Any) -> None:
        found.append(Constants(step, *measure_constants(probe, task.follow(model), root)))

    train(run, task, [0, *run.arm.evaluation.steps], look)
    return found
