"""Lemma 11: rewards over their group's standard deviation make no exact U-statistic.

With rewards 0 and 1 of value V, sigma^2 = V (1-V), and s the sd of a group of G, the mean
is slope(G) g. A U-statistic's depends on no G; that of (Z_i - mean of others) / s is off
its target g/sigma by, to first order,

    slope sigma - 1 = (1/2 - 1/(8 V (1-V))) / G,

with 1 less than 1/2 for (Z_i - Zbar) / s, and 1/2 less where that s has G in the place of
G - 1. Where V G is small few groups have both rewards, and sqrt(V G) of it is left.

For large G the error is first-order linear in the completions, that of s included,

    [W (Z - V) - g] / sigma - g ((Z - V)^2 - sigma^2) / (2 sigma^3),

whose trace is not that of (Z - V) W / sigma, of which s would be known.
"""

import math

import numpy as np
import pandas as pd

from mse_lab.answers.judgement import decide
from mse_lab.arrays import Floats
from mse_lab.estimators import Estimator, find_estimator
from mse_lab.mse.laws import find_law
from mse_lab.mse.moments import Moments
from mse_lab.studies.theory.bandit import Bandit, Point
from mse_lab.studies.theory.findings import (
    ROUNDING,
    SHARE,
    Control,
    Finding,
    exactly,
    limiting,
    near,
)

# The paper's normalisation, GRPO's, and that with the sd by G; of each, what 1/2 of the
# first order has less.
PLAIN = {
    find_estimator("grpo-loo-std"): 0.0,
    find_estimator("grpo-std"): 1.0,
    find_estimator({"name": "grpo-std", "ddof": 0}): 0.5,
}

# Those of verl and of TRL.
VERL, TRL = (find_estimator({"name": "grpo-std", "eps": eps}) for eps in (1e-6, 1e-4))

# Of rewards, and G. The first is so small that no first order is in sight.
VALUES, SIZES = np.array([0.02, 0.1, 0.3, 0.5, 0.9]), (4, 8, 16, 64, 512)

# What an eps may change.
HARMLESS = 0.01


def slopes(estimator: Estimator, size: int, values: Floats) -> Floats:
    """Exact slope(V; G) for rewards 0 and 1, whatever the scores."""
    law, ones = find_law(estimator, size, binary=True), np.ones_like(values)
    assert law is not None  # Its weights depend on the group's rewards alone.
    moments = Moments(ones, values, values, values, values * (1 - values), 0 * values)
    return law(moments).slope


def standardised() -> pd.DataFrame:
    """Tabulate how far each normalisation's mean is from g / sqrt(V (1-V))."""
    target, rows = 1 / np.sqrt(VALUES * (1 - VALUES)), []
    for estimator in (*PLAIN, VERL, TRL):
        for size in SIZES:
            columns = {"estimator": estimator.name, "group_size": size, "value": VALUES}
            bias = slopes(estimator, size, VALUES) - target
            rows.append(pd.DataFrame({**columns, "bias": bias, "relative": bias / target}))
    return pd.concat(rows)


def _judge_bias() -> Finding:
    """Judge the bias to first order in 1/G of each normalisation without eps."""
    values, size, found = VALUES[1:], SIZES[-1], {}
    variances = values * (1 - values)
    for estimator, less in PLAIN.items():
        relative = slopes(estimator, size, values) * np.sqrt(variances) - 1
        found[less] = size * relative - (1 / 2 - less) + 1 / (8 * variances)
    worst, without = max(abs(one).max() for one in found.values()), abs(found[1.0] - 1)
    return Finding(
        "Lemma 11, bias (1/2 - 1/(8V(1-V)))/G",
        f"G times the relative bias off its first order, at most, G = {size}; of three "
        "normalisations at V = 0.1 to 0.9",
        exactly(worst),
        0.0,
        near(exactly(worst), 0.0),
        Control("GRPO's as if it had the paper's mean", without.min() > 0.5),
    )


def _judge_mean() -> Finding:
    """Judge whether the mean depends on G, which no U-statistic's does."""
    [paper, *_] = PLAIN
    few, many = (slopes(paper, size, VALUES) for size in (SIZES[1], SIZES[-2]))
    ratio = exactly((few / many).min())
    return Finding(
        "Lemma 11, not exactly a U-statistic",
        f"least ratio of the mean at G = {SIZES[1]} to that at {SIZES[-2]}, V = 0.02 to "
        "0.9; a U-statistic has 1",
        ratio,
        math.nan,
        decide(fails=abs(ratio.value - 1) < ROUNDING, holds=ratio.value < 1 - SHARE),
    )


def _judge_eps() -> Finding:
    """Judge what TRL's eps changes, for rewards of 0 and 1."""
    _, without, _ = PLAIN
    ratios = [
        slopes(TRL, size, VALUES) / slopes(without, size, VALUES) for size in SIZES[:-1]
    ]
    largest = exactly(np.abs(np.array(ratios) - 1).max())
    return Finding(
        "Proposition 13, TRL's eps of 1e-4",
        "largest relative change of the mean, G = 4 to 64, V = 0.02 to 0.9",
        largest,
        0.0,
        near(largest, 0.0, HARMLESS),
    )


def linear_trace(point: Point) -> Floats:
    """The trace of the first-order covariance of each prompt, times G, (P,)."""
    sd_P = np.sqrt(point.moments.variance)
    apart_PK = point.rewards_PK - point.value_P[:, None]
    squares_PK = (apart_PK / sd_P[:, None]) ** 2 - 1
    weighted_PKD = apart_PK[..., None] * point.scores_PKD
    own_PKD = (1 + squares_PK[..., None] / 2) * point.gradients_PD[:, None]
    parts_PKD = (weighted_PKD - own_PKD) / sd_P[:, None, None]
    return point.mean((parts_PKD**2).sum(-1))


def _judge_covariance(point: Point) -> Finding:
    """Judge G times the covariance's trace, exact, at the largest G."""
    [paper, *_] = PLAIN
    moments, size = point.moments, SIZES[-1]
    law = find_law(paper, size, binary=True)
    assert law is not None  # As above.
    second, slope_P, _ = law(moments)
    trace = size * (second - slope_P**2 * moments.gradient2).mean()
    known = trace / (moments.trace_oracle / moments.variance).mean()
    return limiting(
        "Lemma 11, covariance, noise of sd in it",
        f"G tr Cov of leave-one-out over the group's sd, exact, G = {size}, over that",
        exactly(trace / linear_trace(point).mean()),
        Control(f"(Z - V) W / sd, a known sd, {known:.2f}", abs(known - 1) > SHARE),
    )


def judge_lemma_11(
    bandit: Bandit, theta_D: Floats
) -> tuple[list[Finding], dict[str, pd.DataFrame]]:
    """Judge mean and covariance by their exact laws; tabulate the bias."""
    judged = [_judge_mean(), _judge_bias(), _judge_covariance(bandit.at(theta_D))]
    return [*judged, _judge_eps()], {"standardised": standardised()}
