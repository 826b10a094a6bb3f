"""What corrections of an engine's mismatch do to the gradient, and which one is best."""

import math
from typing import NamedTuple

import numpy as np

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
    setting: str  # How the trainer is told; empty where it has none.
    mass: float  # Mean weight of a token.
    kept: Estimate  # The share of the gradient that is kept, <E g_hat, g> / ||g||^2.
    # Over ||g||^2.
    bias2: Estimate
    variance: Estimate
    scale_free_mse: Estimate  # The least MSE of a multiple of it, over ||g||^2.
    difference: Estimate  # The same less that of no correction.


class Mismatch(NamedTuple):
    """How far an engine is from the policy, and what corrections do."""

    # G of GRPO-type, and N completions.
    group_size: int
    budget: int
    kl_per_token: float  # KL divergence, nats a token.
    sd: float  # Standard deviation of a completion's log ratio.
    effective: float  # Effective sample size of uncut ratios over completions.
    # Whether no correction has, or may have, a bias of more than 5% of its MSE.
    needed: bool
    # The correction of least scale-free MSE, where it is shown to be below that of no
    # correction.
    best: str | None
    rows: tuple[Corrected, ...]  # All of them.


class _Bench(NamedTuple):
    population: CorrectionPopulation
    judged: list[Judged]
    level: float

    def row(self, place: int) -> Corrected:
        """Judge a correction; relatively where ||g||^2 is known to be positive."""
        one, correction = self.judged[place], CORRECTIONS[place]
        gradient2 = self.population.estimate(one.gradient2, self.level)

        def figure(samples: np.ndarray, *, positive: bool = False) -> Estimate:
            if gradient2.low <= 0:
                return UNKNOWN
            return self.population.estimate(samples, self.level, positive=positive)

        return Corrected(
            correction=correction.name,
            setting=correction.setting,
            mass=float(self.population.pools.mass_PF[:, place].mean()),
            kept=figure(one.kept),
            bias2=figure(one.bias2),
            variance=figure(one.noise, positive=True),
            scale_free_mse=figure(one.scale_free),
            difference=figure(one.scale_free - self.judged[NONE].scale_free),
        )

    @property
    def needed(self) -> bool:
        """Whether no correction's bias may be more than a small share of its MSE."""
        none = self.judged[NONE]
        excess = (1 - SMALL) * none.distance2 - SMALL * none.variance
        return not self.population.estimate(excess, self.level).high <= 0


def judge_mismatch(
    pools: CorrectionPools | None, group_size: int, budget: int, level: float
) -> Mismatch | None:
    """Judge all corrections, at a group size and a budget; None where no engine drew."""
    if pools is None:
        return None
    population = CorrectionPopulation(pools)
    groups = budget / group_size
    judged = [population.judge(at, group_size, groups) for at in range(len(CORRECTIONS))]
    bench = _Bench(population, judged, level)
    rows = [bench.row(place) for place in range(len(CORRECTIONS))]
    usable = [one for place, one in enumerate(rows) if place not in (NONE, EXACT)]
    least = min(usable, key=lambda one: np.nan_to_num(one.difference.value, nan=math.inf))
    weights = np.exp(pools.log_ratios_PN - pools.log_ratios_PN.max())
    return Mismatch(
        group_size=group_size,
        budget=budget,
        kl_per_token=float(pools.divergences_PN.sum() / pools.lengths_PN.sum()),
        sd=float(pools.log_ratios_PN.std()),
        effective=float(weights.sum() ** 2 / (weights**2).sum() / weights.size),
        needed=bench.needed,
        best=least.correction if least.difference.high < 0 else None,
        rows=tuple(rows),
    )
