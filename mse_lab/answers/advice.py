"""Advice: which group size to train with, from one run's pools.

For B = N/G prompts drawn at random and G completions of each, by `mse_lab.mse.budget`,

    GRPO-type            N MSE = c1 G + c2 + c3 / (G-1), least at G* = 1 + sqrt(c3/c1)
    constant baseline b  N MSE = c1 G + E[(Z-b)^2 ||W||^2 - ||g||^2], least at G = 1

so GRPO-type beats vanilla from G = 1 + c3 / (c_vanilla - c2) on, or never. Samples are in
proportion to N MSE: what costs 10 percent more of it needs 10 percent more samples for the
same MSE. MSE / ||g||^2 is the relative error of a gradient; N times it, the completions at
which it is one, is the gradient noise scale of arXiv 1812.06162.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mse_lab.answers.prompt_means import Kind, mean_of_prompts, share_by_kind, silent_share
from mse_lab.arrays import Floats, divide
from mse_lab.errors import InputError
from mse_lab.mse.budget import (
    Constants,
    Population,
    falling,
    grpo_mse_times_budget,
    vanilla_mse_times_budget,
)
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.pools import Pools
from mse_lab.results.analysis import Analysis

SIZES = tuple(2**power for power in range(1, 9))

# Where the curves are evaluated; every eighth is one of SIZES.
CURVE_SIZES = tuple(2 ** (step / 8) for step in range(8, 65))

# Completions of the budget that errors are stated for; every figure else is free of it.
BUDGET = 1024

# Without an upper bound on G*, the smallest group whose MSE exceeds the least by no more.
TOLERANCE = 0.05


class Row(NamedTuple):
    """One group size at the budget.

    Attributes:
        group_size: G.
        more_samples: Samples for the same MSE, less those at the reference size, relative.
        silent_share: Share of groups whose rewards are all equal; None where the pools
            have fewer completions than the group.
    """

    group_size: int
    more_samples: Estimate
    silent_share: Estimate | None


@dataclass(frozen=True)
class Advice:
    """What a run says about group sizes, every number with its interval over prompts.

    Attributes:
        prompts: P.
        level: Nominal level of the intervals.
        between: c1.
        oracle: c2.
        pairs: c3.
        vanilla: c_vanilla.
        best_constant: The same for b*.
        gradient2: ||E g(X)||^2.
        best: G*; infinite above where c1 is not told from zero.
        reference_size: The G that `more_samples` counts from: G*, or the best of SIZES.
        recommended: A power of two.
        rows: A row for each of SIZES.
        curves: Estimator -> MSE at the budget for each of CURVE_SIZES.
        beats_vanilla_from: Smallest whole G at which GRPO-type has the smaller error;
            infinite for never.
        vanilla_saving: Share of samples that vanilla at G = 1 saves over GRPO-type at the
            recommended G; negative where it needs more.
        best_constant_saving: The same for b*, both at the recommended G.
        best_constant_over_value: The same for b* over the value V as the baseline.
        relative_error: MSE / ||g||^2 of GRPO-type at the budget and the recommended G.
        noise_scale: The budget at which that is one.
        noise_scale_oracle: The same for the oracle at G = 1.
        kinds: Where the noise sits.
        warning: What forbids relying on the numbers; empty if nothing does.
        law_only: Whether the run has norms only: no replicates that confirm the law.
    """

    prompts: int
    level: float
    between: Estimate
    oracle: Estimate
    pairs: Estimate
    vanilla: Estimate
    best_constant: Estimate
    gradient2: Estimate
    best: Estimate
    reference_size: float
    recommended: int
    rows: tuple[Row, ...]
    curves: Mapping[str, tuple[Estimate, ...]]
    beats_vanilla_from: Estimate
    vanilla_saving: Estimate
    best_constant_saving: Estimate
    best_constant_over_value: Estimate
    relative_error: Estimate
    noise_scale: Estimate
    noise_scale_oracle: Estimate
    kinds: tuple[Kind, ...]
    warning: str = ""
    law_only: bool = False

    @property
    def unbounded(self) -> bool:
        """Whether G* has no upper bound on this evidence."""
        return math.isinf(self.best.high)

    @property
    def best_group_size(self) -> float:
        """G*."""
        return self.best.value

    @property
    def low(self) -> float:
        """The lower end of the interval of G*."""
        return self.best.low

    @property
    def high(self) -> float:
        """The upper end of the interval of G*; infinite where there is none."""
        return self.best.high


CURVES = ("grpo", "vanilla", "oracle", "best-constant")


def mse_times_budget(name: str, constants: Constants, size: float) -> Floats:
    """N MSE at group size G; c1, a mean square, is taken as zero where negative."""
    constants = constants._replace(between=np.maximum(constants.between, 0.0))
    if name == "grpo":
        return grpo_mse_times_budget(constants, size)
    constant = {
        "vanilla": constants.vanilla,
        "oracle": constants.oracle,
        "best-constant": constants.best_constant,
    }[name]
    return vanilla_mse_times_budget(constants._replace(vanilla=constant), size)


@dataclass(frozen=True)
class _Evidence:
    """The population of prompts, and the level of its intervals."""

    population: Population
    level: float

    def estimate(self, figure: Callable[[Constants], Floats]) -> Estimate:
        """Give a figure its interval."""
        return self.population.estimate(figure, self.level)

    def positive(self, figure: Callable[[Constants], Floats]) -> Estimate:
        """Give a figure that is positive by nature its interval."""
        return self.population.estimate_positive(figure, self.level)


def beats_vanilla_from(population: Population, level: float) -> Estimate:
    """Smallest whole G above 1 + c3 / (c_vanilla - c2)."""

    def gain(one: Constants) -> Floats:
        return divide(one.vanilla - one.oracle, one.pairs)

    sizes = falling(population.estimate(gain, level), -1)
    return Estimate(*(end if math.isinf(end) else math.floor(1 + end) + 1 for end in sizes))


def _saving(
    evidence: _Evidence, one: tuple[str, float], over: tuple[str, float]
) -> Estimate:
    """Share of samples saved by one (estimator, G) over another."""

    def cost(constants: Constants) -> Floats:
        top, bottom = (
            mse_times_budget(name, constants, size) for name, size in (one, over)
        )
        return divide(top, bottom)

    share = evidence.positive(cost)
    return Estimate(1 - share.value, 1 - share.high, 1 - share.low)


def _noise_scale(evidence: _Evidence, name: str, size: float) -> Estimate:
    """N MSE / ||g||^2; infinite above where ||g||^2 is not measurably positive."""
    inverse = evidence.estimate(
        lambda one: divide(one.gradient2, mse_times_budget(name, one, size))
    )
    return falling(inverse, -1)


def _choose(constants: Constants, best: Estimate) -> tuple[float, int]:
    """Choose the size that costs are counted from, and the power of two to recommend."""
    cost = {size: mse_times_budget("grpo", constants, size).item() for size in SIZES}
    if math.isinf(best.high):
        least = min(cost, key=cost.__getitem__)
        limit = (1 + TOLERANCE) * cost[least]
        return least, min(size for size in SIZES if cost[size] <= limit)
    inside = [size for size in SIZES if best.low <= size <= best.high]
    return best.value, min(inside or SIZES, key=cost.__getitem__)


def _rows(evidence: _Evidence, pools: Pools, reference_size: float) -> tuple[Row, ...]:
    rewards = np.concatenate([pools.reference_rewards_PN, pools.rewards_PN], axis=1)
    rows = []
    for size in SIZES:
        saving = _saving(evidence, ("grpo", size), ("grpo", reference_size))
        more = Estimate(-saving.value, -saving.high, -saving.low)
        enough = size <= rewards.shape[1]
        silent = (
            mean_of_prompts(silent_share(rewards, size), evidence.level) if enough else None
        )
        rows.append(Row(size, more, silent))
    return tuple(rows)


def _curve(evidence: _Evidence, name: str) -> tuple[Estimate, ...]:
    """MSE at the budget for each of CURVE_SIZES."""

    def mse(size: float) -> Estimate:
        return evidence.positive(lambda one: mse_times_budget(name, one, size) / BUDGET)

    return tuple(mse(size) for size in CURVE_SIZES)


def advise(result: Analysis) -> Advice:
    """Work out the advice.

    Args:
        result: Of pools of three prompts or more, taken as drawn from a distribution.

    Raises:
        InputError: There are fewer prompts, or no reward varies within a prompt.
    """
    pools, level = result.pools, result.level
    if pools.prompts < 3:
        raise InputError(
            f"{pools.prompts} prompts: advice needs three or more; raise prompts.limit"
        )
    population = Population(pools)
    if population.constants.pairs.item() <= 0:
        raise InputError("the rewards of a prompt are all equal: nothing to advise on")
    evidence = _Evidence(population, level)
    best = population.best_group_size(level)
    reference_size, recommended = _choose(population.constants, best)
    grpo, value = ("grpo", recommended), ("oracle", recommended)
    best_constant = ("best-constant", recommended)
    noise_scale = _noise_scale(evidence, *grpo)
    return Advice(
        prompts=pools.prompts,
        level=level,
        between=evidence.estimate(lambda one: one.between),
        oracle=evidence.positive(lambda one: one.oracle),
        pairs=evidence.positive(lambda one: one.pairs),
        vanilla=evidence.positive(lambda one: one.vanilla),
        best_constant=evidence.positive(lambda one: one.best_constant),
        gradient2=evidence.estimate(lambda one: one.gradient2),
        best=best,
        reference_size=reference_size,
        recommended=recommended,
        rows=_rows(evidence, pools, reference_size),
        curves={name: _curve(evidence, name) for name in CURVES},
        beats_vanilla_from=beats_vanilla_from(population, level),
        vanilla_saving=_saving(evidence, ("vanilla", 1), grpo),
        best_constant_saving=_saving(evidence, best_constant, grpo),
        best_constant_over_value=_saving(evidence, best_constant, value),
        relative_error=Estimate(*(end / BUDGET for end in noise_scale)),
        noise_scale=noise_scale,
        noise_scale_oracle=_noise_scale(evidence, "oracle", 1),
        kinds=share_by_kind(pools, level),
        law_only=not pools.has_cross_products,
    )
