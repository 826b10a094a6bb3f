"""Assumption 2: given the prompt, ||W||^2 and Z are uncorrelated. Then b* = V.

The assumption is about every prompt, so it is tested twice. With r_h the covariance in one
half of a prompt's completions over the scale sd(||W||^2) sd(Z) in the other half,

    (r_0 + r_1)/2   has mean zero where the correlation is zero, however unlike the spread
                    of ||W||^2 among right and wrong completions is: the mean over prompts,
    r_0 r_1         has mean zero there, and is positive on average wherever it is not zero,
                    also where prompts of opposite sign cancel in the mean.
"""

import math
from typing import NamedTuple

import numpy as np

from mse_lab.answers.judgement import decide, holm
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import Claim, Statement
from mse_lab.arrays import Floats
from mse_lab.formatting import number
from mse_lab.mse.intervals import Estimate, Statistic
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_samples import mean_over_prompts

ASSUMPTION = Statement(
    "Assumption 2",
    "Given the prompt, ||W||^2 and the reward are uncorrelated.",
    short="score norm, reward uncorrelated",
    number="r",
)

# A correlation that explains one hundredth of the variance.
SMALL_CORRELATION = 0.1

# Said where a correlation looks like an error.
BEYOND_ONE = " (one half's covariance over the other's scale: it may exceed one)"


def _halves(pools: Pools) -> tuple[Floats, Floats]:
    """Covariance and scale of ||W||^2 and Z in both halves of each prompt, (P, 2)."""
    half = pools.rewards_PN.shape[1] // 2
    shape = (pools.prompts, 2, half)
    norms2, rewards = (
        values_PN[:, : 2 * half].reshape(shape)
        for values_PN in (pools.norms2_PN, pools.rewards_PN)
    )
    deviations = [values - values.mean(-1, keepdims=True) for values in (norms2, rewards)]
    # Norms that differ by the rounding of float32 alone, in which scores are, do not vary.
    varies = np.ptp(norms2, axis=-1) > 1e-6 * np.abs(norms2).max(-1)
    of_norms2, of_rewards = deviations
    scale = np.sqrt((of_norms2**2).sum(-1) * (of_rewards**2).sum(-1)) * varies
    return (of_norms2 * of_rewards).sum(-1), scale


def correlations(pools: Pools) -> Floats:
    """Correlate ||W||^2 with Z by halves of each prompt in which both vary, (P', 2).

    The covariance of a half is divided by the scale of the other half, which is independent
    of it.
    """
    covariance, scale = _halves(pools)
    varied = (scale > 0).all(-1)
    return np.asarray(covariance[varied] / scale[varied][:, ::-1])


def weighted_mean(run: MeasuredRun, values_P: Floats) -> float:
    """Mean over prompts weighted by E||W||^2, which is how the aggregate sees them."""
    weights_P = run.moments.norm2
    total = float(weights_P.sum())
    return float(values_P @ weights_P) / total if total > 0 else float("nan")


def describe_baselines(run: MeasuredRun) -> str:
    """Say where the best baseline lies, means over prompts weighted by E||W||^2."""
    best, value = (
        weighted_mean(run, values_P)
        for values_P in (run.moments.best_baseline, run.moments.value)
    )
    return f"the best baseline b* is {best:.2f} and the value V {value:.2f}"


class Correlations(NamedTuple):
    """The mean over prompts, the mean square, and the p-value of no correlation at all.

    The p-value is Holm's of the two tests. It is 1, and the means are unknown, where fewer
    than two prompts have rewards and score norms that vary.
    """

    prompts: int
    mean: Statistic
    square: Statistic
    p_value: float


def measure_correlations(pools: Pools) -> Correlations:
    """Test whether ||W||^2 and Z are uncorrelated on every prompt."""
    halves = correlations(pools)
    if len(halves) < 2:
        unknown = Statistic(math.nan, {}, {})
        return Correlations(len(halves), unknown, unknown, 1.0)
    mean, square = map(mean_over_prompts, (halves.mean(-1), halves.prod(-1)))
    p_value = min(holm([mean.p_not_zero(), square.p_above_zero()]))
    return Correlations(len(halves), mean, square, p_value)


def judge_correlation(run: MeasuredRun) -> Claim:
    """Judge Assumption 2 by the mean over prompts, and by the products of halves.

    It holds where the largest root mean square that is not ruled out is small. The mean
    has a test and no interval: divided by the other half's scale, a correlation that is not
    zero comes out too large, the more so the rarer the reward.
    """
    case, test = ASSUMPTION.about(run), measure_correlations(run.pools)
    if test.prompts < 2:
        why = "Fewer than two prompts have rewards and score norms that vary."
        return case.undecided("no correlation", why)[0]
    mean, square = test.mean.value, test.square.interval(run.level)
    typical, largest = (np.sqrt(max(part, 0.0)) for part in (square.value, square.high))
    beyond = BEYOND_ONE if abs(mean) > 1 else ""
    return case.claim(
        f"mean correlation within prompts {number(mean)}{beyond}, root mean square "
        f"{typical:.3g}, at most {largest:.3g}; {test.prompts} prompts",
        decide(test.p_value < 1 - run.level, bool(largest < SMALL_CORRELATION)),
        f"{describe_baselines(run)}.",
        Estimate(mean, math.nan, math.nan),
        test.p_value,
    )
