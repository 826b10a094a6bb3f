"""Assumption 2: given the prompt, ||W||^2 and Z are uncorrelated. Then b* = V.

The assumption is about every prompt, so it is tested twice. With r_h the covariance in one
half of a prompt's completions over the scale sd(||W||^2) sd(Z) in the other half,

    (r_0 + r_1)/2   has mean zero where the correlation is zero, however unlike the spread
                    of ||W||^2 among right and wrong completions is: the mean over prompts,
    r_0 r_1         has mean zero there, and is positive on average wherever it is not zero,
                    also where prompts of opposite sign cancel in the mean.

For rewards 0 and 1 it says that rho = E[||W||^2 | Z=1] / E[||W||^2 | Z=0] is 1, which is
judged by the same test. Its level does not rest on intervals of single prompts, which cover
less where right completions are few and scores heavy-tailed: how many of them miss 1 is
only reported. It holds where every interval lies within a factor of two of 1. The paper's
picture needs far less: rho above (1-V)/(2-V), which is at most 1/2 (`mse_lab.mse.regime`).
"""

import math
from typing import NamedTuple

import numpy as np

from mse_lab.answers.judgement import decide, holm
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import FEW_PROMPTS, Claim, Statement, judges
from mse_lab.arrays import Floats
from mse_lab.formatting import number, with_interval
from mse_lab.mse.intervals import Estimate, Statistic
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_samples import mean_over_prompts
from mse_lab.mse.regime import equal_baseline, norm_ratio

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

    The p-value is Holm's of the two tests: 1 where fewer than two prompts have rewards and
    score norms that vary, with which the means are unknown.
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

    It holds where the largest root mean square that is not ruled out is small. The mean has
    a test and no interval: divided by the other half's scale, a correlation that is not
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


RATIO = Statement(
    "Assumption 2 (rho = 1)",
    "For rewards 0 and 1, Assumption 2: on every prompt "
    "rho = E[||W||^2 | Z=1] / E[||W||^2 | Z=0] is 1.",
    short="each rho = 1; needed: (1-V)/(2-V)",
    number="aggregate rho",
)

# The fewest right, and the fewest wrong, completions of a prompt whose interval counts.
FEWEST = 5


def _known_ratios(run: MeasuredRun) -> tuple[Floats, Floats]:
    """Intervals of rho that are known well enough, (2, n), and each prompt's line, (n,)."""
    right_P = run.pools.rewards_PN.sum(-1)
    wrong_P = run.pools.rewards_PN.shape[1] - right_P
    ends, value = run.norm_ratios[:, 1:], run.moments.value
    enough = (np.minimum(right_P, wrong_P) >= FEWEST) & np.isfinite(ends).all(-1)
    return ends[enough].T, norm_ratio(equal_baseline(value), value)[enough]


@judges(order=60)
def judge_norm_ratio(run: MeasuredRun) -> list[Claim]:
    """Judge rho = 1 by the correlations; count the prompts whose intervals miss it."""
    case = RATIO.about(run)
    if run.pools.prompts < 3:
        return case.undecided(*FEW_PROMPTS)
    if not run.binary:
        return case.undecided("no rho", "Rewards are not 0 and 1, for which rho is.")
    (low, high), line = _known_ratios(run)
    if not low.size:
        why = f"No prompt has {FEWEST} right and {FEWEST} wrong completions."
        return case.undecided("no rho", why)
    missed, regime = int(((low > 1) | (high < 1)).sum()), run.regime
    p_value = measure_correlations(run.pools).p_value
    near = bool(((low > 1 / 2) & (high < 2)).all())
    return [
        case.claim(
            f"rho {with_interval(regime.rho)} for the aggregate; a prompt's interval "
            f"misses 1 on {missed} of {low.size}",
            decide(p_value < 1 - run.level, near),
            "That vanilla is worse than the oracle needs only rho > (1-V)/(2-V), "
            f"{regime.line:.2g} for the aggregate: prompts' intervals are above their line "
            f"on {(low > line).sum()}, below it on {(high < line).sum()} of {low.size}.",
            regime.rho,
            p_value,
        )
    ]
