"""Regimes: on which prompts a baseline near the value helps, and on which it hurts.

With letters as in `moments.py`, a constant baseline b has

    G MSE = S ((b - b*)^2 - b*^2) + A - gamma,

so what counts is how far b lies from b*. Vanilla has b = 0, the oracle b = V:

    G (MSE_vanilla - MSE_oracle) = V S (2 b* - V),

positive where b* is nearer to V than to 0. GRPO-type pays zeta / (G-1) for its estimate of
V, so it is better than vanilla above the crossing G = 1 + zeta / (V S (2 b* - V)), or
nowhere. All of this holds for any rewards. For rewards 0 and 1, with the mean squared
score norms S_1 = b* S / V of right and S_0 = (1-b*) S / (1-V) of wrong completions,

    V S (2 b* - V) = V^2 ((2-V) S_1 - (1-V) S_0) > 0   <=>   rho > (1-V)/(2-V),

rho = S_1/S_0 = odds(b*)/odds(V), odds(p) = p/(1-p). Assumption 2 of arXiv 2603.01162,
score norm and reward uncorrelated, is b* = V: for rewards 0 and 1 rho = 1.

A run is placed at the (V, b*) of the aggregate, b* = q V with q = E[V B] / E[V^2 S], for
prompts drawn at random; the oracle has the smaller MSE where q > 1/2. rho grows with q, so
its interval, at the place's V, misses the line exactly where that of q misses 1/2. The
interval of b* is that of q V, with the noise of V besides.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from mse_lab.arrays import LARGEST, Floats, divide
from mse_lab.mse.intervals import LARGEST_LOG, UNKNOWN, Estimate, Statistic
from mse_lab.mse.moments import Moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_table import count_carriers, mean_over_prompts

# Number of completions that the spread of the commoner kind counts as, for the rarer kind.
BORROWED = 5


def oracle_gain(moments: Moments) -> Floats:
    """G (MSE_vanilla - MSE_oracle) of each prompt, whatever G: V S (2 b* - V)."""
    return moments.constant_baseline(0.0) - moments.trace_oracle


def gain_shares(moments: Moments) -> Floats:
    """What each prompt adds to (vanilla - oracle) / (vanilla + oracle), of MSEs over all.

    Their sum s gives vanilla's MSE over the oracle's, (1 + s) / (1 - s).
    """
    gain = oracle_gain(moments)
    return divide(gain, (gain + 2 * moments.trace_oracle).sum())


def norm_ratio(baseline: Floats, value: Floats) -> Floats:
    """Rho at the best baseline b*, for rewards 0 and 1; NaN where V is 0 or 1.

    >>> norm_ratio(np.array([0.25, 0.5, 1.0]), np.full(3, 0.5)).round(3).tolist()
    [0.333, 1.0, inf]
    """
    right, wrong = baseline * (1 - value), (1 - baseline) * value
    varies = (value > 0) & (value < 1)
    return np.where(varies, divide(right, wrong, otherwise=math.inf), math.nan)


def measured_baselines(moments: Moments, ratios_P3: Floats) -> Floats:
    """The b* of each prompt with its interval, by the inverse of `norm_ratio`, (P, 3).

    From rows of rho, for rewards 0 and 1; where rho is unknown b* has no interval.
    """
    value_P1 = moments.value[:, None]
    wrong_P3 = divide(1 - value_P1, ratios_P3, otherwise=math.inf)
    alone = moments.best_baseline[:, None] * [1, math.nan, math.nan]
    measured = divide(value_P1, value_P1 + wrong_P3)
    return np.where(np.isnan(ratios_P3), alone, measured)


def equal_baseline(value: Floats, group_size: float = math.inf) -> Floats:
    """The b* at which vanilla and GRPO-type at G have the same MSE, for rewards 0 and 1.

    It is V/2 + (1-V)/(2(G-1)), up to ||g||^2 / (2 V S (G-1)), which is small with many
    parameters. For infinite G GRPO-type is the oracle, and `norm_ratio` of this b* is
    (1-V)/(2-V).

    >>> equal_baseline(np.array([0.5]), 3).tolist()
    [0.375]
    """
    return value / 2 + (1 - value) / (2 * (group_size - 1))


def aggregate_place(moments: Moments) -> tuple[float, float]:
    """Compute V and b* of an aggregate, for which b* > V/2 where the oracle beats vanilla.

    With means over prompts weighted by S, V is the root of the mean V^2, and b* is the mean
    V b* over that root: then the mean of V S (2 b* - V) is its value at this V and b* and
    the mean S. NaN where no prompt has a value and a score.
    """
    parts = (moments.value2_norm2, moments.value_reward_norm2, moments.norm2)
    squares, weighted, norm2 = (float(values_P.sum()) for values_P in parts)
    value = math.sqrt(squares / norm2) if squares > 0 and norm2 > 0 else math.nan
    return value, float(divide(weighted, value * norm2, otherwise=math.nan))


def _borrow_spread(few: Floats, many: Floats) -> Floats:
    """Widen a few numbers about their mean, if many others vary more, relatively.

    A few numbers with heavy tails seldom show them. So their relative variance is averaged
    with that of the others, which counts as `BORROWED` numbers. Numbers that are all equal
    are left as they are.
    """
    degrees = len(few) - 1
    of_few, of_many = (divide(part, part.mean()).var() for part in (few, many))
    of_few *= len(few) / max(degrees, 1)
    wider = (degrees + BORROWED * divide(of_many, of_few, 1.0)) / (degrees + BORROWED)
    factor = math.sqrt(max(float(wider), 1.0))
    return np.asarray(few.mean() + factor * (few - few.mean()))


def measure_norm_ratio(norms2_N: Floats, rewards_N: Floats, level: float) -> Estimate:
    """Measure rho of a prompt on its own completions, rewards 0 and 1.

    The interval is Welch's, in the logarithm, with the rarer kind's spread widened by
    `_borrow_spread`. Its ends are NaN where there is a single right or wrong completion,
    which does not show how much its kind varies, or where the upper end is too large. Rho
    itself is NaN where one kind is missing, or wrong completions have no score.
    """
    parts = {str(kind): norms2_N[rewards_N == kind] for kind in (0, 1)}
    fewest = min(map(len, parts.values()))
    if not fewest or not parts["0"].any():
        return UNKNOWN
    few, many = sorted(parts, key=lambda kind: len(parts[kind]))
    spread = parts | {few: _borrow_spread(parts[few], parts[many])}
    wrong, right = (
        Statistic(float(part.mean()), {kind: spread[kind][None]}, {})
        for kind, part in parts.items()
    )
    ratio = right.ratio_to(wrong, level) if fewest > 1 else UNKNOWN
    low, high = max(ratio.low, 0.0), ratio.high
    ends = (low, high) if high < LARGEST**2 else (math.nan, math.nan)
    return Estimate(right.value / wrong.value, *ends)


def measure_norm_ratios(pools: Pools, level: float) -> Floats:
    """Measure rho of each prompt, rows of (value, low, high); NaN unless all are 0 or 1."""
    if not pools.binary:
        return np.full((pools.prompts, len(UNKNOWN)), math.nan)
    pairs = zip(pools.norms2_PN, pools.rewards_PN, strict=True)
    return np.array([measure_norm_ratio(*pair, level) for pair in pairs])


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
    return float(norm_ratio(np.clip(baseline, 0, 1), np.array(value)))


def find_regime(
    moments: Moments, binary: bool, level: float, most: float = math.inf
) -> Regime:
    """Find the regime of a run of two prompts or more.

    `most` bounds the degrees of freedom, as `PromptTable.effective_prompts`.
    """
    value, share = aggregate_place(moments)[0], _share(moments, level, most)
    return Regime(
        side=_side(share),
        binary=binary,
        value=value,
        best_baseline=_best_baseline(moments, level, most),
        rho=Estimate(*(_rho(q * value, value) for q in share)) if binary else UNKNOWN,
        line=_rho(float(equal_baseline(np.array(value))), value) if binary else math.nan,
    )
