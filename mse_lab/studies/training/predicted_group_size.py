"""The group size that a study predicts, from pilots, before anything else is trained.

The loss that noise leaves adds up along the path, so what counts is the path's mean of
N MSE = c1 G + c2 + c3/(G-1), least at

    G* = 1 + sqrt(sum_t c3(t) / sum_t c1(t)),

t over all steps, the constants between two measured steps on a straight line.
"""

import math
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, computed_field

from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.mse.intervals import LARGEST_LOG, Estimate, half_width


class Predicted(BaseModel):
    """What pilots predict for a step, as `prediction.json` has it.

    Attributes:
        log_ratio: log(G* - 1), with its standard error and degrees of freedom.
        constants: c1, c2, c3, means over the path.
    """

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)

    step: int
    log_ratio: Annotated[float, Field(ge=-300, le=300)]  # Its exponential is finite.
    error: Annotated[float, Field(ge=0)]
    degrees: Annotated[int, Field(ge=1)]
    constants: tuple[float, float, float]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def best(self) -> float:
        """G*."""
        return 1 + math.exp(self.log_ratio)

    def interval(self, level: float) -> Estimate:
        """Give G* its interval, symmetric in log(G* - 1)."""
        reach = half_width(self.error, level, self.degrees)
        ends = (self.log_ratio + sign * reach for sign in (0, -1, 1))
        return Estimate(*(1 + math.exp(min(end, LARGEST_LOG)) for end in ends))


def _path_means(pilot: pd.DataFrame, last: int) -> Floats:
    """Average c1, c2, c3 of a pilot over the steps up to `last`, by trapezia, (3,)."""
    path = pilot[pilot["step"] <= last].sort_values("step")
    steps = path["step"].to_numpy(float)
    integrals = np.trapezoid(path[["c1", "c2", "c3"]].to_numpy(), steps, axis=0)
    return np.asarray(integrals / (steps[-1] - steps[0]))


def _log_ratio(means_S3: Floats) -> float:
    c1, _, c3 = means_S3.mean(0)
    if c1 <= 0 or c3 <= 0:
        raise InputError(
            f"prediction: c1 = {c1:.3g}, c3 = {c3:.3g}: not significantly above zero; "
            "raise prediction.reference, or prediction.seeds"
        )
    return 0.5 * math.log(c3 / c1)


def predict_at(pilots: pd.DataFrame, step: int) -> Predicted:
    """Predict for training up to a step; the error by the jackknife over seeds.

    The pilots of a seed, one for each group size, share their uniforms: they are one trial.
    """
    by_pilot = pilots.groupby(["seed", "group_size"])
    means = {key: _path_means(pilot, step) for key, pilot in by_pilot}
    means_S3 = pd.DataFrame(means).T.groupby(level=0).mean().to_numpy()
    seeds = len(means_S3)
    others = [_log_ratio(np.delete(means_S3, seed, axis=0)) for seed in range(seeds)]
    c1, c2, c3 = means_S3.mean(0).tolist()
    return Predicted(
        step=step,
        log_ratio=_log_ratio(means_S3),
        error=math.sqrt((seeds - 1) * float(np.var(others))),
        degrees=seeds - 1,
        constants=(c1, c2, c3),
    )


def predict(pilots: pd.DataFrame) -> dict[int, Predicted]:
    """Predict for each measured step after the start, by step."""
    steps = sorted(set(pilots["step"]) - {0})
    return {int(step): predict_at(pilots, int(step)) for step in steps}
