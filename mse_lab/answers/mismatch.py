"""What corrections of an engine's mismatch do to the gradient, and which one is best.

An engine such as vLLM draws with other probabilities than the policy that is
differentiated; `mse_lab.mse.corrections` has the corrections and their laws.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.corrections import (
    CORRECTIONS,
    EXACT,
    NONE,
    CorrectionPools,
    CorrectionPopulation,
    Judged,
)
from mse_lab.mse.intervals import UNKNOWN, Estimate

# A bias of this share of the MSE needs no correction.
SMALL = 0.05


class Corrected(NamedTuple):
    """GRPO-type with a correction, over random prompts at the budget."""

    correction: str  # Its name.
    setting: str  # The trainer's setting for it; empty where there is none.
    mass: float  # Mean weight of a token.
    kept: Estimate  # The share of the gradient that is kept, <E g_hat, g> / ||g||^2.
    # Over ||g||^2.
    bias2: Estimate
    variance: Estimate
    scale_free_mse: Estimate  # The least MSE of a multiple of it, over ||g||^2.
    difference: Estimate  # The same less that without a correction.


class Mismatch(NamedTuple):
    """How far an engine is from the policy, and what corrections do."""

    # G of GRPO-type, and N completions.
    group_size: int
    budget: int
    kl_per_token: float  # KL divergence, nats a token.
    sd: float  # Standard deviation of a completion's log ratio.
    effective: float  # Effective sample size of uncut ratios over completions.
    # Whether, without a correction, the bias is or may be more than 5% of the MSE.
    needed: bool
    # The correction of least scale-free MSE, if it is shown to be below that without one.
    best: str | None
    rows: tuple[Corrected, ...]  # All of them.


def _row(
    population: CorrectionPopulation, judged: Sequence[Judged], index: int, level: float
) -> Corrected:
    """Judge a correction relative to ||g||^2; unknown where that may be zero.

    Where no ratio was beyond its bound it is as `exact`, and its bias is unknown, too.
    """
    own, correction = judged[index], CORRECTIONS[index]
    apart_PF = population.pools.apart_PFF.diagonal(axis1=1, axis2=2)
    unseen = index != EXACT and np.array_equal(apart_PF[:, index], apart_PF[:, EXACT])
    gradient2 = population.estimate(own.gradient2, level)

    def figure(samples: Floats, *, positive: bool = False) -> Estimate:
        if gradient2.low <= 0:
            return UNKNOWN
        return population.estimate(samples, level, positive=positive)

    return Corrected(
        correction=correction.name,
        setting=correction.setting,
        mass=float(population.pools.mass_PF[:, index].mean()),
        kept=UNKNOWN if unseen else figure(own.kept),
        bias2=UNKNOWN if unseen else figure(own.bias2),
        variance=figure(own.noise, positive=True),
        scale_free_mse=figure(own.scale_free),
        difference=figure(own.scale_free - judged[NONE].scale_free),
    )


def judge_mismatch(
    pools: CorrectionPools | None, group_size: int, budget: int, level: float
) -> Mismatch | None:
    """Judge all corrections, at a group size and a budget; None where no engine drew."""
    if pools is None:
        return None
    population, count = CorrectionPopulation(pools), len(CORRECTIONS)
    groups = budget / group_size
    judged = [population.judge(index, group_size, groups) for index in range(count)]
    rows = [_row(population, judged, index, level) for index in range(count)]
    usable = [row for index, row in enumerate(rows) if index not in (NONE, EXACT)]
    least = min(usable, key=lambda row: np.nan_to_num(row.difference.value, nan=math.inf))
    none = judged[NONE]
    excess_bias = (1 - SMALL) * none.distance2 - SMALL * none.variance
    weights = np.exp(pools.log_ratios_PN - pools.log_ratios_PN.max())
    return Mismatch(
        group_size=group_size,
        budget=budget,
        kl_per_token=float(pools.divergences_PN.sum() / pools.lengths_PN.sum()),
        sd=float(pools.log_ratios_PN.std()),
        effective=float(weights.sum() ** 2 / (weights**2).sum() / weights.size),
        needed=not population.estimate(excess_bias, level).high <= 0,
        best=least.correction if least.difference.high < 0 else None,
        rows=tuple(rows),
    )
