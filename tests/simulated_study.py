"""A simulated training study, whose best group size is 5 except in some arms."""

import math

import numpy as np
import pandas as pd

from mse_lab.studies.training.predicted_group_size import Predicted
from mse_lab.studies.training.settings import Study, arms_of

SIZES, STEPS = [2, 4, 8, 16, 32, 64], [5, 10]
ARMS = {
    "budget-64": {"budget": 64},
    "small-step": {"eta": 0.001},
    "vanilla": {"estimator": "vanilla", "group_sizes": [1, *SIZES]},
    # Better where G is 16 and more.
    "half-step": {"eta": 0.015, "seeds": 5},
    "better": {"estimator": "best-constant-loo"},
}
STUDY = Study(probe="x", steps=10, seeds=12, evaluation={"steps": STEPS}, arms=ARMS)


def predict(rho):
    """A prediction of G* = 1 + rho at each step, its error 0.1 in log rho."""
    constants = (1.0, 9.0, rho**2)
    values = {"log_ratio": math.log(rho), "error": 0.1, "degrees": 7}
    return {step: Predicted(step=step, constants=constants, **values) for step in STEPS}


def _mean_reward(arm, size):
    if arm == "vanilla":
        return 0.8 - 0.03 * math.log(size)
    if arm == "small-step":
        return 0.5
    gain = 0.1 if arm == "better" else 0.0
    if arm == "half-step":
        gain = 0.1 if size >= 16 else -0.1
    return 0.8 + gain - 0.005 * (size + 16 / (size - 1))


def simulate(seeds=12):
    """The table of its runs, noise of 0.01 about each mean."""
    rng = np.random.default_rng(0)
    rows = [
        {"arm": arm.name, "group_size": size, "seed": seed, "step": step,
         "budget": arm.training.budget, "digest": arm.digest,
         "value": _mean_reward(arm.name, size) + 0.01 * rng.standard_normal()}
        for arm in arms_of(STUDY) for seed in range(min(seeds, arm.training.seeds))
        for size in arm.training.group_sizes for step in STEPS
    ]  # fmt: skip
    # Held-out prompts are a tenth worse, and looked at when all is done.
    table = pd.DataFrame(rows)
    last = table["step"] == STEPS[-1]
    return table.assign(held_out=(table["value"] - 0.1).where(last))


def row_of(verdict, arm, prompts="training"):
    """What a verdict says of an arm's last step."""
    last = max(row["step"] for row in verdict["steps"])
    wanted = (arm, last, prompts)
    [row] = [
        row
        for row in verdict["steps"]
        if (row["arm"], row["step"], row["prompts"]) == wanted
    ]
    return row
