"""Widths: how wide the intervals of a run will be, before it is made.

A replicate's squared error, of a mean of G independent X_i with mean zero and covariance
Sigma (X = (Z - V) W - g for the oracle, Z W - g for vanilla), has mean tr Sigma / G and
variance

    (Var ||X||^2 + 2 (G-1) tr(Sigma^2)) / G^3,

and the two halves of n completions of the reference add 4 tr(Sigma^2) / (2 n G) to it. With
R = N/G replicates of each of P prompts the aggregate's MSE varies by the sum of these over
P^2 R, plus what the reference shifts all of a prompt's replicates by: tr(Sigma^2) / n^2
(`reference_noise.py`) and, for the oracle, the noise of V, (2 (V S - B) / G)^2 Var(Z) /
(2 n).
Any pools of the same prompts tell these moments, those of a few completions too.

GRPO-type has intervals about as wide as the oracle's, and its paired ratio to the oracle a
narrower one. The intervals of a run come from the spread of its groups; where there are few
of them they scatter about these widths.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import stats

from mse_lab.arrays import Floats
from mse_lab.mse.moments import pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.probe.schema import Probe

# Estimators with a constant baseline, of which the widths are computed.
BASE = "oracle"
YARDSTICKS = (BASE, "vanilla")

# A suggestion raises a pool by no more than this factor.
MOST = 64


class Scale(NamedTuple):
    """How much is measured.

    Attributes:
        prompts: P.
        reference: Completions of the reference pool.
        replicate: Completions of the replicate pool.
    """

    prompts: int
    reference: int
    replicate: int


@dataclass(frozen=True)
class Moments:
    """Moments of each prompt's errors, (P,); of X = (Z - baseline) W - g.

    Attributes:
        trace: tr Sigma = E||X||^2.
        norm2_variance: Var ||X||^2.
        square_trace: tr(Sigma^2).
        value_effect: 2 (V S - B), by which G MSE changes with V; 0 if V is not used.
        value_variance: Var(Z), that of V's estimate times its completions.
    """

    trace: Floats
    norm2_variance: Floats
    square_trace: Floats
    value_effect: Floats
    value_variance: Floats


def _centred(gram_PKGG: Floats) -> Floats:
    """Products of X_i - mean of its block."""
    return (
        gram_PKGG
        - gram_PKGG.mean(-1, keepdims=True)
        - gram_PKGG.mean(-2, keepdims=True)
        + gram_PKGG.mean((-1, -2), keepdims=True)
    )


def error_moments(pools: Pools, yardstick: str) -> Moments:
    """Estimate the moments of a constant baseline's errors.

    Without products between completions tr(Sigma^2) is bounded by tr(Sigma)^2, and g is
    left in.

    Args:
        pools: Pools of the same prompts, of any size.
        yardstick: `oracle` or `vanilla`.
    """
    oracle = yardstick == "oracle"
    baseline = pools.value_P[:, None] if oracle else 0.0
    residuals = pools.in_blocks(pools.rewards_PN - baseline)
    known = pools.has_cross_products_P
    whole = residuals[..., :, None] * residuals[..., None, :] * pools.gram_PKGG
    gram = np.where(known[:, None, None, None], _centred(whole), whole)
    norms2 = np.diagonal(gram, axis1=-2, axis2=-1)
    size = pools.largest_group
    # The mean that was taken off is one of a block: G - 1 are free, of one none.
    free = size - 1 if size > 1 else math.nan
    trace = norms2.mean((-1, -2)) * np.where(known, size / free, 1)
    pairs = ((gram**2).sum((-1, -2)) - (norms2**2).sum(-1)).mean(-1)
    known_moments = pool_moments(pools)
    effect = 2 * (pools.value_P * known_moments.norm2 - known_moments.reward_norm2)
    return Moments(
        trace=trace,
        norm2_variance=norms2.reshape(pools.prompts, -1).var(-1),
        square_trace=np.where(known, pairs / (size * free), trace**2),
        value_effect=effect if oracle else np.zeros(pools.prompts),
        value_variance=pools.reward_variance_P,
    )


def half_width(moments: Moments, group: int, scale: Scale, level: float) -> float:
    """Compute the half-width of an aggregate MSE's interval, relative to the MSE.

    Args:
        moments: Moments of some of the prompts.
        group: G.
        scale: How much is measured.
        level: Coverage of the interval.

    >>> one, none = np.ones(1), np.zeros(1)
    >>> scale = Scale(prompts=100, reference=10**6, replicate=100)
    >>> width = half_width(Moments(one, one, none, none, none), 1, scale, 0.95)
    >>> round(width, 4)  # 1.96 standard errors of a mean of 10,000
    0.0196
    """
    half, replicates = scale.reference / 2, scale.replicate / group
    a_replicate = (
        moments.norm2_variance + 2 * (group - 1) * moments.square_trace
    ) / group**3 + 4 * moments.square_trace / (2 * half * group)
    shift = moments.square_trace / half**2
    shift = shift + (moments.value_effect / group) ** 2 * moments.value_variance / (
        2 * half
    )
    variance = (a_replicate / replicates + shift).mean() / scale.prompts
    mse = moments.trace.mean() / group
    quantile = float(stats.norm.ppf((1 + level) / 2))
    return quantile * float(np.sqrt(variance)) / float(mse) if mse > 0 else float("nan")


def law_half_width(moments: Moments, scale: Scale, level: float) -> float:
    """The same for the exact law: one trace is told by all replicates, at any G."""
    half = scale.reference / 2
    shift = moments.value_effect**2 * moments.value_variance / (2 * half)
    variance = moments.norm2_variance / scale.replicate + moments.square_trace / half**2
    error = np.sqrt((variance + shift).mean() / scale.prompts)
    mean = moments.trace.mean()
    quantile = float(stats.norm.ppf((1 + level) / 2))
    return quantile * float(error) / float(mean) if mean > 0 else float("nan")


@dataclass(frozen=True)
class Widths:
    """Half-widths of a run's intervals, relative.

    Attributes:
        prompts: Prompts whose scores tell them.
        group_sizes: Group sizes.
        mse: Yardstick -> half-width of its MSE at each group size; empty where there will
            be no replicates.
        law: Yardstick -> half-width of its law.
        wanted: The half-width wanted.
        level: Coverage of the intervals.
        remedies: Where it is not reached, what would reach it.
    """

    prompts: int
    group_sizes: Sequence[int]
    mse: dict[str, list[float]]
    law: dict[str, float]
    wanted: float
    level: float
    remedies: list[str]

    @property
    def known(self) -> bool:
        """Whether they are told: not by single completions, nor by one reward a prompt."""
        return all(np.isfinite(width) for width in self.law.values())

    @property
    def widest(self) -> tuple[float, str, int]:
        """The widest: half-width, yardstick and group size."""
        return max(
            (width, name, group)
            for name, widths in self.mse.items()
            for width, group in zip(widths, self.group_sizes, strict=True)
        )

    @property
    def suffice(self) -> bool:
        """Whether all are as wanted."""
        return not self.mse or not self.known or self.widest[0] <= self.wanted


def _replicates_for(
    width: Callable[[Scale], float], scale: Scale, wanted: float
) -> float | None:
    """Find how many replicates one point needs: its width squared is a + b / replicates."""
    least = width(scale._replace(replicate=10**15)) ** 2
    if least >= wanted**2:
        return None
    return scale.replicate * (width(scale) ** 2 - least) / (wanted**2 - least)


def enlarged(
    widths: Sequence[Callable[[Scale], float]], scale: Scale, group: int, wanted: float
) -> Scale | None:
    """Find pools that are large enough; the reference is doubled only where it must be.

    Args:
        widths: Of every point, by scale.
        scale: The scale that is too small.
        group: The replicates' number is a multiple of it.
        wanted: The half-width wanted.

    Returns:
        The scale, of the same prompts; None if it would take too much.
    """
    for power in range(MOST.bit_length()):
        larger = scale._replace(reference=scale.reference << power)
        needed = [_replicates_for(width, larger, wanted) for width in widths]
        known = [count for count in needed if count is not None]
        if len(known) == len(needed):
            blocks = max(math.ceil(max(known) / group), scale.replicate // group)
            if blocks * group <= MOST * scale.replicate:
                return larger._replace(replicate=blocks * group)
    return None


def _remedies(
    widths: Sequence[Callable[[Scale], float]], scale: Scale, group: int, wanted: float
) -> list[str]:
    """Say what would reach the half-width wanted: settings, or more prompts."""
    found, remedies = enlarged(widths, scale, group, wanted), []
    if found is not None:
        keys = [f"pool.replicate={found.replicate}"]
        if found.reference > scale.reference:
            keys.insert(0, f"pool.reference={found.reference}")
        remedies.append(" with ".join(keys))
    widest = max(width(scale) for width in widths)
    remedies.append(f"{math.ceil(scale.prompts * (widest / wanted) ** 2)} prompts")
    return remedies


def expect_widths(pools: Pools, probe: Probe, prompts: int, *, replicates: bool) -> Widths:
    """Say how wide a run's intervals will be.

    Args:
        pools: Pools of some of its prompts, of any size.
        probe: The run's configuration.
        prompts: The run's prompts.
        replicates: Whether it will have replicates, or norms only.
    """
    scale = Scale(prompts, probe.pool.reference, probe.pool.replicate)
    level, wanted = probe.interval.level, probe.interval.width
    asked = [one if isinstance(one, str) else one["name"] for one in probe.estimators]
    names = [name for name in YARDSTICKS if name == BASE or name in asked]
    moments = {name: error_moments(pools, name) for name in names}
    sizes = probe.group_sizes if replicates else []
    points = [
        partial(half_width, moments[name], group, level=level)
        for name in names
        for group in sizes
    ]
    expected = Widths(
        prompts=pools.prompts,
        group_sizes=sizes,
        mse={
            name: [half_width(moments[name], group, scale, level) for group in sizes]
            for name in (names if replicates else [])
        },
        law={name: law_half_width(moments[name], scale, level) for name in names},
        wanted=wanted,
        level=level,
        remedies=[],
    )
    if expected.suffice:
        return expected
    remedies = _remedies(points, scale, probe.largest_group, wanted)
    return replace(expected, remedies=remedies)
