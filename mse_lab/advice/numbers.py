"""Advice: which group size to train with, from one run's pools.

For B = N/G prompts drawn at random and G completions of each, by `mse_lab.budget`,

    GRPO-type            N MSE = c1 G + c2 + c3 / (G-1), least at G* = 1 + sqrt(c3/c1)
    constant baseline b  N MSE = c1 G + E[(Z-b)^2 ||W||^2 - ||g||^2], least at G = 1

so GRPO-type beats vanilla from G = 1 + c3 / (c_vanilla - c2) on, or never. Samples are in
proportion to N MSE: what costs 10 percent more of it needs 10 percent more samples for the
same MSE. MSE / ||g||^2 is the relative error of a gradient; N times it, the completions at
which it is one, is the gradient noise scale of arXiv 1812.06162.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mse_lab.advice.evidence import (
    Evidence,
    Numbers,
    gather_evidence,
    mse_times_budget,
    ratio_of,
)
from mse_lab.advice.prompt_means import (
    Kind,
    PromptMeans,
    resample_prompt_means,
    share_by_kind,
    silent_share,
)
from mse_lab.config import Probe
from mse_lab.intervals import Estimate
from mse_lab.pools import Floats, Pools

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
        best_group_size: G*; infinite above where c1's interval reaches zero.
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
    best_group_size: Estimate
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
        return math.isinf(self.best_group_size.high)


CURVES = ("grpo", "vanilla", "oracle", "best-constant")


def _falling(ratio: Estimate, power: float) -> Estimate:
    """Raise an estimate to a negative power; infinite where it is not positive."""
    ends = (ratio.value, ratio.high, ratio.low)
    return Estimate(*(end**power if end > 0 else math.inf for end in ends))


def estimate_best_group_size(evidence: Evidence) -> Estimate:
    """G* = 1 + sqrt(c3/c1), by way of c1/c3, which is finite whatever c1."""

    def ratio(one: Numbers) -> Floats:
        return ratio_of(one.constants.between, one.constants.pairs)

    sizes = _falling(evidence.estimate(ratio), -0.5)
    return Estimate(*(1 + end for end in sizes))


def estimate_beats_vanilla_from(evidence: Evidence) -> Estimate:
    """Smallest whole G above 1 + c3 / (c_vanilla - c2)."""

    def gain(one: Numbers) -> Floats:
        constants = one.constants
        return ratio_of(constants.vanilla - constants.oracle, constants.pairs)

    sizes = _falling(evidence.estimate(gain), -1)
    return Estimate(*(end if math.isinf(end) else math.floor(1 + end) + 1 for end in sizes))


def _saving(
    evidence: Evidence, one: tuple[str, float], over: tuple[str, float]
) -> Estimate:
    """Share of samples saved by one (estimator, G) over another."""

    def saving(numbers: Numbers) -> Floats:
        top, bottom = (mse_times_budget(name, numbers, size) for name, size in (one, over))
        return 1 - ratio_of(top, bottom)

    return evidence.estimate(saving)


def _noise_scale(evidence: Evidence, name: str, size: float) -> Estimate:
    """N MSE / ||g||^2; infinite above where ||g||^2 is not measurably positive."""
    inverse = evidence.estimate(
        lambda one: ratio_of(one.constants.gradient2, mse_times_budget(name, one, size))
    )
    return _falling(inverse, -1)


def _choose(evidence: Evidence, best: Estimate) -> tuple[float, int]:
    """Choose the size that costs are counted from, and the power of two to recommend."""
    cost = {size: mse_times_budget("grpo", evidence.point, size).item() for size in SIZES}
    if math.isinf(best.high):
        least = min(cost, key=cost.__getitem__)
        limit = (1 + TOLERANCE) * cost[least]
        return least, min(size for size in SIZES if cost[size] <= limit)
    inside = [size for size in SIZES if best.low <= size <= best.high]
    return best.value, min(inside or SIZES, key=cost.__getitem__)


def _rows(
    evidence: Evidence, pools: Pools, means: PromptMeans, reference_size: float
) -> tuple[Row, ...]:
    rewards = np.concatenate([pools.reference_rewards_PN, pools.rewards_PN], axis=1)
    rows = []
    for size in SIZES:
        saving = _saving(evidence, ("grpo", size), ("grpo", reference_size))
        more = Estimate(-saving.value, -saving.high, -saving.low)
        enough = size <= rewards.shape[1]
        silent = means.estimate(silent_share(rewards, size)) if enough else None
        rows.append(Row(size, more, silent))
    return tuple(rows)


def _curve(evidence: Evidence, name: str) -> tuple[Estimate, ...]:
    """MSE at the budget for each of CURVE_SIZES."""

    def mse(size: float) -> Estimate:
        return evidence.estimate(lambda one: mse_times_budget(name, one, size) / BUDGET)

    return tuple(mse(size) for size in CURVE_SIZES)


def advise(pools: Pools, probe: Probe) -> Advice:
    """Work out the advice.

    Args:
        pools: Pools of two prompts or more, taken as drawn from a distribution of prompts.
        probe: Its `interval` and `seed` are used.

    Raises:
        InputError: There is a single prompt, or no reward varies within a prompt.
    """
    evidence = gather_evidence(pools, probe)
    means = resample_prompt_means(pools, probe)
    best = estimate_best_group_size(evidence)
    reference_size, recommended = _choose(evidence, best)
    grpo, value = ("grpo", recommended), ("oracle", recommended)
    best_constant = ("best-constant", recommended)
    noise_scale = _noise_scale(evidence, *grpo)
    return Advice(
        prompts=pools.prompts,
        level=probe.interval.level,
        between=evidence.estimate(lambda one: one.constants.between),
        oracle=evidence.estimate(lambda one: one.constants.oracle),
        pairs=evidence.estimate(lambda one: one.constants.pairs),
        vanilla=evidence.estimate(lambda one: one.constants.vanilla),
        best_constant=evidence.estimate(lambda one: one.best_constant),
        gradient2=evidence.estimate(lambda one: one.constants.gradient2),
        best_group_size=best,
        reference_size=reference_size,
        recommended=recommended,
        rows=_rows(evidence, pools, means, reference_size),
        curves={name: _curve(evidence, name) for name in CURVES},
        beats_vanilla_from=estimate_beats_vanilla_from(evidence),
        vanilla_saving=_saving(evidence, ("vanilla", 1), grpo),
        best_constant_saving=_saving(evidence, best_constant, grpo),
        best_constant_over_value=_saving(evidence, best_constant, value),
        relative_error=Estimate(*(end / BUDGET for end in noise_scale)),
        noise_scale=noise_scale,
        noise_scale_oracle=_noise_scale(evidence, "oracle", 1),
        kinds=share_by_kind(pools, means),
        law_only=not pools.has_cross_products,
    )
