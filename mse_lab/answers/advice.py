"""Advice: which group size to train with, from one run's pools.

For B = N/G prompts drawn at random and G completions of each, by `mse_lab.mse.budget`,

    GRPO-type            N MSE = c1 G + c2 + c3 / (G-1), least at G* = 1 + sqrt(c3/c1)
    constant baseline b  N MSE = c1 G + E[(Z-b)^2 ||W||^2 - ||g||^2], least at G = 1

so GRPO-type beats vanilla from G = 1 + c3 / (c_vanilla - c2) on, or never. Samples are in
proportion to N MSE: what costs 10 percent more of it needs 10 percent more samples for the
same MSE. MSE / ||g||^2 is the relative error of a gradient; N times it, the completions at
which it is one, is the gradient noise scale of arXiv 1812.06162. Here ||g||^2 is that of
the population's mean gradient, not of the run's fixed prompts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.prompt_means import Kind, mean_of_prompts, share_by_kind, silent_share
from mse_lab.arrays import Floats, divide
from mse_lab.errors import InputError
from mse_lab.mse.budget import Constants, Population, falling, mse_times_budget
from mse_lab.mse.intervals import Estimate

SIZES = tuple(2**power for power in range(1, 9))

# Where the curves are evaluated; every eighth is one of SIZES.
CURVE_SIZES = tuple(2 ** (step / 8) for step in range(8, 65))

# Completions of the budget that errors are stated for; every figure else is free of it.
BUDGET = 1024

# Without an upper bound on G*, the smallest group whose MSE exceeds the least by no more.
TOLERANCE = 0.05

CURVES = ("grpo", "vanilla", "oracle", "best-constant")


class GroupSize(NamedTuple):
    """One group size: the samples that it needs more than the reference size, relative.

    `silent_share` is that of groups whose rewards are all equal; None where the pools have
    fewer completions than the group.
    """

    group_size: int
    more_samples: Estimate
    silent_share: Estimate | None


@dataclass(frozen=True)
class Advice:
    """What a run says about group sizes, every number with its interval over prompts.

    Savings are shares of samples for the same MSE, over GRPO-type at the recommended G if
    nothing else is said; negative where more are needed.

    Attributes:
        between, oracle, pairs, vanilla: c1, c2, c3, c_vanilla.
        best_constant: As c_vanilla, for the baseline b*.
        gradient2: ||E g(X)||^2 of the population.
        best: G*; infinite above where c1 is not told from zero.
        reference_size: The G that `more_samples` counts from: G*, or the best of SIZES.
        recommended: A power of two.
        curves: Estimator -> MSE at the budget for each of CURVE_SIZES.
        beats_vanilla_from: Smallest whole G at which GRPO-type has the smaller error;
            infinite for never.
        vanilla_saving: Of vanilla at G = 1.
        best_constant_saving: Of b*, both at the recommended G.
        best_constant_over_value: Of b* over the value V as the baseline.
        relative_error: MSE / ||g||^2 of GRPO-type at the budget and the recommended G.
        noise_scale: The budget at which that is one; that of the oracle is at G = 1.
        kinds: Where the noise sits.
        law_only: Whether no replicate confirms the laws that this rests on.
        warning: What a reader must know first.
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
    rows: tuple[GroupSize, ...]
    curves: Mapping[str, tuple[Estimate, ...]]
    beats_vanilla_from: Estimate
    vanilla_saving: Estimate
    best_constant_saving: Estimate
    best_constant_over_value: Estimate
    relative_error: Estimate
    noise_scale: Estimate
    noise_scale_oracle: Estimate
    kinds: tuple[Kind, ...]
    warning: str
    law_only: bool

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


def beats_vanilla_from(population: Population, level: float) -> Estimate:
    """Smallest whole G above 1 + c3 / (c_vanilla - c2)."""

    def gain(one: Constants) -> Floats:
        return divide(one.vanilla - one.oracle, one.pairs)

    sizes = falling(population.estimate(gain, level), -1)
    return Estimate(*(end if math.isinf(end) else math.floor(1 + end) + 1 for end in sizes))


Point = tuple[str, float]


def _cost(run: MeasuredRun, one: Point, over: Point) -> Estimate:
    """Samples that one (estimator, G) needs, over those of another."""

    def cost(constants: Constants) -> Floats:
        return divide(*(mse_times_budget(name, constants, at) for name, at in (one, over)))

    return run.population.estimate_positive(cost, run.level)


def _saving(run: MeasuredRun, one: Point, over: Point) -> Estimate:
    """Share of samples that one (estimator, G) saves over another."""
    share = _cost(run, one, over)
    return Estimate(1 - share.value, 1 - share.high, 1 - share.low)


def _noise_scale(run: MeasuredRun, name: str, size: float) -> Estimate:
    """N MSE / ||g||^2; infinite above where ||g||^2 is not measurably positive."""

    def inverse(one: Constants) -> Floats:
        return divide(one.gradient2, mse_times_budget(name, one, size))

    return falling(run.population.estimate(inverse, run.level), -1)


def _choose(run: MeasuredRun) -> tuple[float, int]:
    """Choose the size that costs are counted from, and the power of two to recommend."""
    best, constants = run.best_group_size, run.population.constants
    cost = {size: mse_times_budget("grpo", constants, size).item() for size in SIZES}
    if math.isinf(best.high):
        least = min(cost, key=cost.__getitem__)
        limit = (1 + TOLERANCE) * cost[least]
        return least, min(size for size in SIZES if cost[size] <= limit)
    inside = [size for size in SIZES if best.low <= size <= best.high]
    return best.value, min(inside or SIZES, key=cost.__getitem__)


def _rows(run: MeasuredRun, reference_size: float) -> tuple[GroupSize, ...]:
    both = (run.pools.reference_rewards_PN, run.pools.rewards_PN)
    rewards_PN, rows = np.concatenate(both, axis=1), []
    for size in SIZES:
        cost, silent = _cost(run, ("grpo", size), ("grpo", reference_size)), None
        if size <= rewards_PN.shape[1]:
            share_P = silent_share(rewards_PN, size)
            silent = mean_of_prompts(share_P).interval(run.level)
        rows.append(GroupSize(size, Estimate(*(end - 1 for end in cost)), silent))
    return tuple(rows)


def _curve(run: MeasuredRun, name: str) -> tuple[Estimate, ...]:
    """MSE at the budget for each of CURVE_SIZES."""

    def mse_at(size: float) -> Estimate:
        def figure(constants: Constants) -> Floats:
            return mse_times_budget(name, constants, size) / BUDGET

        return run.population.estimate_positive(figure, run.level)

    return tuple(map(mse_at, CURVE_SIZES))


def advise(run: MeasuredRun) -> Advice:
    """Work out the advice.

    Args:
        run: Of three prompts or more, taken as drawn from a distribution.

    Raises:
        InputError: There are fewer prompts, or no reward varies within a prompt.
    """
    if (prompts := run.pools.prompts) < 3:
        raise InputError(
            f"{prompts} prompts: advice needs three or more; raise prompts.limit"
        )
    if math.isnan(run.best_group_size.value):
        raise InputError("the rewards of a prompt are all equal: nothing to advise on")
    reference_size, recommended = _choose(run)
    grpo, value = ("grpo", recommended), ("oracle", recommended)
    best_constant = ("best-constant", recommended)
    noise_scale = _noise_scale(run, *grpo)
    return Advice(
        prompts=prompts,
        level=run.level,
        **run.constants,
        best=run.best_group_size,
        reference_size=reference_size,
        recommended=recommended,
        rows=_rows(run, reference_size),
        curves={name: _curve(run, name) for name in CURVES},
        beats_vanilla_from=beats_vanilla_from(run.population, run.level),
        vanilla_saving=_saving(run, ("vanilla", 1), grpo),
        best_constant_saving=_saving(run, best_constant, grpo),
        best_constant_over_value=_saving(run, best_constant, value),
        relative_error=Estimate(*(end / BUDGET for end in noise_scale)),
        noise_scale=noise_scale,
        noise_scale_oracle=_noise_scale(run, "oracle", 1),
        kinds=share_by_kind(run.pools, run.level),
        warning="",
        law_only=run.law_only,
    )
