"""A run's regime: on which side of vanilla a baseline near the value is, and how far.

By `mse_lab.mse.regime`, for prompts drawn at random and letters as there: at the place
(V, b*) of the aggregate b* = q V with

    q = E[V B] / E[V^2 S],

and the oracle has the smaller MSE than vanilla where q > 1/2, so b* > V/2. For rewards 0
and 1 that is rho = odds(b*) / odds(V) > (1-V)/(2-V). rho grows with q, so its interval, at
the place's V, misses the line exactly where that of q misses 1/2. The interval of b* is
that of q V, with the noise of V besides.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.intervals import LARGEST_LOG, UNKNOWN, Estimate
from mse_lab.mse.moments import Moments
from mse_lab.mse.prompt_samples import count_carriers, mean_over_prompts
from mse_lab.mse.regime import aggregate_place, equal_baseline, norm_ratio, oracle_gain

# A side of the line on which vanilla and the oracle have one MSE; above it vanilla's is
# larger.
Side = Literal["above", "below", "undecided"]


class Regime(NamedTuple):
    """On which side of vanilla a run and its prompts are; intervals are over prompts."""

    side: Side  # That of the aggregate; undecided where the interval of q holds 1/2.
    binary: bool  # Whether rewards are 0 and 1; else nothing is known of rho.
    value: float  # V of the aggregate's place.
    best_baseline: Estimate  # b* there.
    rho: Estimate  # E[||W||^2 | right] / E[||W||^2 | wrong] there.
    line: float  # The rho at which vanilla and the oracle have one MSE there, (1-V)/(2-V).
    median_rho: float  # Median over the prompts that have right and wrong completions.
    prompts_with_rho: int  # How many these are.
    # Prompts on which vanilla's MSE is above the oracle's, by the moments.
    vanilla_worse: int
    prompts: int  # Prompts on which the two differ.


def _side(share: Estimate) -> Side:
    if share.low > 1 / 2:
        return "above"
    return "below" if share.high < 1 / 2 else "undecided"


def _share(moments: Moments, level: float, most: float) -> Estimate:
    """Estimate q; unknown where no prompt has a value and a score."""
    weighted, squares = moments.value_reward_norm2, moments.value2_norm2
    share = mean_over_prompts(weighted) / mean_over_prompts(squares)
    # Few prompts may carry what decides between q and 1/2.
    carriers = count_carriers(oracle_gain(moments))
    return share.interval(level, positive=True, most_degrees=min(most, carriers))


def _best_baseline(moments: Moments, level: float, most: float) -> Estimate:
    """Estimate b* = E[VB] / sqrt(E[V^2 S] E[S]), with the noise of the place's V."""
    parts = (moments.value_reward_norm2, moments.value2_norm2, moments.norm2)
    weighted, squares, norm2 = map(mean_over_prompts, parts)
    if not (weighted.is_positive and squares.is_positive):
        return UNKNOWN
    log = weighted.log() - (squares.log() + norm2.log()) * 0.5
    interval = log.interval(level, most_degrees=most)
    return Estimate(*(math.exp(min(end, LARGEST_LOG)) for end in interval))


def _rho(baseline: float, value: float) -> float:
    """Rho at a best baseline, which is held between 0 and 1."""
    return float(norm_ratio(np.clip(baseline, 0, 1), np.array(value)))


def find_regime(
    moments: Moments, rho_P: Floats, binary: bool, level: float, most: float = math.inf
) -> Regime:
    """Find the regime of a run of two prompts or more.

    rho is NaN where a prompt has no right or no wrong completions; `most` bounds the
    degrees of freedom, as `Population.effective_prompts`.
    """
    value, gain_P = aggregate_place(moments).value, oracle_gain(moments)
    share = _share(moments, level, most)
    finite = rho_P[np.isfinite(rho_P)]
    return Regime(
        side=_side(share),
        binary=binary,
        value=value,
        best_baseline=_best_baseline(moments, level, most),
        rho=Estimate(*(_rho(q * value, value) for q in share)) if binary else UNKNOWN,
        line=_rho(float(equal_baseline(np.array(value))), value) if binary else math.nan,
        median_rho=float(np.median(finite)) if finite.size else math.nan,
        prompts_with_rho=int(finite.size),
        vanilla_worse=int((gain_P > 0).sum()),
        prompts=int((gain_P != 0).sum()),
    )
