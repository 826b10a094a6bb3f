"""Estimators: a group's rewards (lengths, norms) -> the weights of its completions.

Every estimator is g_hat = (1/G) sum_i w_i W_i for one prompt, then the mean over prompts.
Here it is a pure function `weights(groups) -> weights_PRG`; a file holds a family.
"""

from mse_lab.estimators.registry import (
    ESTIMATORS,
    Estimator,
    find_estimator,
    find_estimators,
    identify_estimators,
)

__all__ = [
    "ESTIMATORS",
    "Estimator",
    "find_estimator",
    "find_estimators",
    "identify_estimators",
]
