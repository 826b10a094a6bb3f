"""The group size that a study predicts, from pilots, before anything else is trained.

The loss that noise leaves adds up along the path, so what counts is the path's mean of
N MSE = c1 G + c2 + c3/(G-1), least at

    G* = 1 + sqrt(sum_t c3(t) / sum_t c1(t)),

t over all steps, the constants between two measured steps on a straight line.
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy import stats

from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.mse.intervals import LARGEST_LOG, Estimate

NAMES = ["between", "oracle", "pairs"]


class Predicted(NamedTuple):
    """What pilots predict for a step: G*, and the path's mean constants.

    Attributes:
        log_ratio: log(G* - 1), with the standard error and degrees of freedom of it.
        constants: c1, c2, c3, means over the path.
    """

    step: int
    log_ratio: float
    error: float
    degrees: int
    constants: tuple[float, float, float]

    @property
    def best(self) -> float:
        """G*."""
        return 1 + math.exp(self.log_ratio)

    def interval(self, level: float) -> Estimate:
        """Give G* its interval, symmetric in log(G* - 1)."""
        reach = float(stats.t.ppf((1 + level) / 2, self.degrees)) * self.error
        ends = (self.log_ratio + sign * reach for sign in (0, -1, 1))
        return Estimate(*(1 + math.exp(min(end, LARGEST_LOG)) for end in ends))

    def mse_times_budget(self, sizes: Floats) -> Floats:
        """N MSE, mean over the path, at group sizes of two or more."""
        between, oracle, pairs = self.constants
        return np.asarray(between * sizes + oracle + pairs / (sizes - 1))

    @classmethod
    def restore(cls, values: dict[str, Any]) -> Self:
        """Read back what `predict` has written."""
        return cls(**{name: values[name] for name in cls._fields})


def _path_means(pilot: pd.DataFrame, last: int) -> Floats:
    """Integrate c1, c2, c3 of a pilot up to a step, by trapezia; over the steps, (3,)."""
    upto = pilot[pilot["step"] <= last].sort_values("step")
    steps = upto["step"].to_numpy(float)
    return np.trapezoid(upto[NAMES].to_numpy(), steps, axis=0) / (steps[-1] - steps[0])


def _log_ratio(means_S3: Floats) -> float:
    between, _, pairs = means_S3.mean(0)
    if between <= 0 or pairs <= 0:
        raise InputError(
            f"prediction: c1 = {between:.3g}, c3 = {pairs:.3g}: not told from zero; "
            "raise prediction.reference, or prediction.seeds"
        )
    return 0.5 * math.log(pairs / between)


def predict_at(pilots: pd.DataFrame, step: int) -> Predicted:
    """Predict for training up to a step; the error by leaving out a seed at a time.

    A seed's pilots, one of each group size, share their uniforms, so they go together.
    """
    means_S3 = np.array(
        [
            np.mean(
                [_path_means(pilot, step) for _, pilot in seed.groupby("group_size")], 0
            )
            for _, seed in pilots.groupby("seed")
        ]
    )
    count = len(means_S3)
    others = [_log_ratio(np.delete(means_S3, one, axis=0)) for one in range(count)]
    error = math.sqrt((count - 1) * float(np.var(others)))
    between, oracle, pairs = (float(mean) for mean in means_S3.mean(0))
    constants = (between, oracle, pairs)
    return Predicted(step, _log_ratio(means_S3), error, count - 1, constants)


def predict(pilots: pd.DataFrame) -> dict[str, Any]:
    """Predict for each measured step after the start, for `prediction.json`."""
    steps = sorted(set(pilots["step"]) - {0})
    found = [predict_at(pilots, int(step)) for step in steps]
    return {"predicted": [one._asdict() | {"best": one.best} for one in found]}


def restore_predictions(values: dict[str, Any]) -> dict[int, Predicted]:
    """Read the predictions of `prediction.json`, by step."""
    found = (Predicted.restore(one) for one in values["predicted"])
    return {one.step: one for one in found}
