"""The group sizes that each arm's optimiser feels to be best, before anything is trained.

Measured on the checkpoint: SGD feels noise by the curvature of the reward, AdamW by that
behind its preconditioner, here made of the gradients measured (`mse_lab.answers.felt`).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mse_lab.answers.felt import Felt, feel
from mse_lab.measurement.directions import Multiply
from mse_lab.measurement.metric import measure_metric, minus_hessian
from mse_lab.measurement.subject import Inputs, Subject, make_subject
from mse_lab.probe.schema import Metric
from mse_lab.studies.training.settings import Arm
from mse_lab.studies.training.task import load_task

METRICS = {"sgd": "curvature", "adamw": "adam"}


def measure_felt(
    arm: Arm,
    settings: Mapping[str, int],
    level: float,
    root: Path,
    curvature: Callable[[Subject, int], Multiply] = minus_hessian,
) -> Felt:
    """Measure what an arm's optimiser feels of the checkpoint, on a sample of its prompts.

    `settings` are keys of a probe's `metric`; `curvature` is as in `measure_metric`.

    Raises:
        InputError: It cannot be measured.
    """
    task = load_task(arm.training.probe, root)
    kind = METRICS[arm.training.optimiser]
    metric = Metric.model_validate({"kind": kind, **settings})
    probe = task.probe.model_copy(update={"metric": metric})
    inputs = Inputs(probe=probe, prompts=task.prompts, reward=task.reward)
    pools = measure_metric(make_subject(inputs, task.policy), curvature=curvature)
    plain = pools.first_order.choose() or 2
    return feel(pools, plain, level)


def felt_by_arm(
    arms: Sequence[Arm], prompts: int, level: float, root: Path
) -> dict[str, Felt]:
    """Measure it for every arm: name -> what it feels; alike arms are measured once."""
    found: dict[tuple[str, str], Felt] = {}
    for arm in arms:
        key = arm.training.probe, arm.training.optimiser
        if key not in found:
            found[key] = measure_felt(arm, {"prompts": prompts}, level, root)
    return {arm.name: found[arm.training.probe, arm.training.optimiser] for arm in arms}
