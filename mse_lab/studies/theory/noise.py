"""Noise: the exact covariance of an estimate of grad J, for any estimator, B and G.

A batch is B prompts drawn at random, G completions each. With a baseline b(x) and

    between = Cov g(X),  within(b) = E Cov[(Z - b) W | X],  pairs = E[Var(Z) E WW' + g g'],

    Cov = between / B + within(b) / (B G) + pairs / (B G (G-1)),

the last for GRPO-type alone, whose b is V. The traces are c1, c2 and c3 of `mse/budget.py`.
"""

from dataclasses import dataclass

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.studies.theory.bandit import Point

ESTIMATORS = ("vanilla", "grpo", "oracle", "best-constant")


@dataclass(frozen=True)
class Noise:
    """What an estimator's covariance is made of, (..., D, D) each."""

    between_DD: Floats
    within_DD: Floats
    pairs_DD: Floats

    def covariance(self, batch: float, size: float) -> Floats:
        """Covariance of the estimate from B prompts of G completions."""
        covariance_DD = self.between_DD + self.within_DD / size
        if self.pairs_DD.any():
            covariance_DD = covariance_DD + self.pairs_DD / (size * (size - 1))
        return covariance_DD / batch


def baseline(estimator: str, point: Point) -> Floats:
    """What an estimator takes from each reward, (P,) or (P, R); GRPO-type on average."""
    if estimator == "vanilla":
        return np.zeros_like(point.value_P)
    if estimator == "best-constant":
        return point.mean(point.rewards_PK * point.norms2_PK) / point.mean(point.norms2_PK)
    return point.value_P


def _mean_outer(rows_PD: Floats) -> Floats:
    return np.einsum("pd...,pe...->de...", rows_PD, rows_PD) / len(rows_PD)


def noise_of(estimator: str, point: Point) -> Noise:
    """Enumerate an estimator's noise at a point."""
    gradients_PD = point.gradients_PD
    squares = _mean_outer(gradients_PD)
    apart = point.rewards_PK - baseline(estimator, point)[:, None]
    variance = point.mean((point.rewards_PK - point.value_P[:, None]) ** 2)[:, None]
    pairs = point.mean_outer(variance) + squares
    return Noise(
        between_DD=_mean_outer(gradients_PD - gradients_PD.mean(0)),
        within_DD=point.mean_outer(apart**2) - squares,
        pairs_DD=pairs * (estimator == "grpo"),
    )
