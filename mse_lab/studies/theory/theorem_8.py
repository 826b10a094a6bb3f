"""Theorem 8: (n + i0) Delta_n tends to a weighted sum of chi-squares.

The distance of two distribution functions, Kolmogorov and Smirnov's D, has an interval
after Dvoretzky, Kiefer, Wolfowitz and Massart: that of R runs is nowhere further than
sqrt(log(2 / (1 - level)) / (2 R)) from the true one.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

from mse_lab.arrays import Floats
from mse_lab.mse.intervals import Estimate
from mse_lab.studies.theory.ascent import Rule, decaying
from mse_lab.studies.theory.chi_squares import cdf
from mse_lab.studies.theory.effort import DELAY, Effort, gaps
from mse_lab.studies.theory.findings import (
    LEVEL,
    Control,
    Finding,
    around,
    error_of,
    limiting,
    near,
)
from mse_lab.studies.theory.limit import Limit
from mse_lab.studies.theory.noise import ESTIMATORS

APART = 0.06  # Largest distance of distribution functions that counts as none.

# Prompts, more of them for noise that is strong, and completions of a step; where runs
# begin; points of a curve.
BATCH, MANY, SIZE, OFFSET, POINTS = 2, 8, 3, 0.2, 40


def distance_from(values_R: Floats, weights_K: Floats) -> tuple[Estimate, float]:
    """Distance D from the mixture, with its interval, and the p-value of the test."""
    test = stats.kstest(values_R, lambda points: cdf(points, weights_K))
    reach = math.sqrt(math.log(2 / (1 - LEVEL)) / (2 * len(values_R)))
    value = float(test.statistic)
    return Estimate(value, max(value - reach, 0.0), value + reach), float(test.pvalue)


def _other_weights(limit: Limit, rule: Rule) -> tuple[str, Floats]:
    """The weights of another estimator, which are not to fit."""
    other = "oracle" if rule.estimator == "grpo" else "grpo"
    return f"weights of {other}", limit.weights(replace(rule, estimator=other))


def judge_law(
    limit: Limit,
    rule: Rule,
    scaled_R: Floats,
    where: str,
    other: tuple[str, Floats] | None = None,
) -> Finding:
    """Judge one distribution; the control has other weights, by default another's."""
    estimate, p_value = distance_from(scaled_R, limit.weights(rule))
    name, weights = other or _other_weights(limit, rule)
    wrong = distance_from(scaled_R, weights)[1]
    return Finding(
        f"Theorem 8, {rule.estimator}, {where}",
        f"distance D of {len(scaled_R)} runs from the mixture, B = {rule.batch}, "
        f"G = {rule.size}; Kolmogorov-Smirnov p = {p_value:.2g}",
        estimate,
        0.0,
        near(estimate, 0.0, APART),
        Control(f"{name}, p = {wrong:.1g}", wrong < 1 - LEVEL),
    )


def _judge_mean(limit: Limit, rule: Rule, scaled_R: Floats) -> list[Finding]:
    """Judge the mean, with beta^2 in Sigma and without it, as the paper prints it."""
    law = float(limit.weights(rule).sum())
    estimate = around(scaled_R.mean() / law, error_of(scaled_R) / law)
    printed = Estimate(*(limit.beta**2 * end for end in estimate))
    protocol = "mean of (n + i0) Delta over that of the mixture"
    caught = Control("Sigma without beta^2", near(printed, 1.0) == "fails")
    return [
        limiting("Theorem 8, mean, beta^2 in Sigma", protocol, estimate, caught),
        limiting("Theorem 8, mean, Sigma as printed", protocol, printed),
    ]


def _curve(rule: Rule, limit: Limit, scaled_R: Floats, steps: int) -> pd.DataFrame:
    shares = (np.arange(POINTS) + 0.5) / POINTS
    points = np.quantile(scaled_R, shares)
    law = cdf(points, limit.weights(rule))
    columns = {"estimator": rule.estimator, "steps": steps, "gap": points, "runs": shares}
    return pd.DataFrame({**columns, "limit": law})


def judge_crossed_noise(limit: Limit, effort: Effort) -> Finding:
    """Test it on noise between directions; the control leaves Sigma's off-diagonal out."""
    rule, count = Rule("grpo", MANY, SIZE), 2 * effort.steps[0]
    steps, start_D = decaying(limit.beta, DELAY), limit.bandit.maximum_D
    theta_TDR = effort.ascents(limit.bandit, rule, steps, (count,), start_D, "crossed")
    other = "Sigma's diagonal alone", limit.diagonal_weights(rule)
    [scaled_R] = gaps(limit.bandit, theta_TDR) * (count + DELAY)
    return judge_law(limit, rule, scaled_R, f"crossed, n = {count:,}", other)


def judge_theorem_8(limit: Limit, effort: Effort) -> tuple[list[Finding], pd.DataFrame]:
    """Test it by runs of each estimator; give the distributions, too."""
    findings, curves, steps = [], [], decaying(limit.beta, DELAY)
    start_D = limit.bandit.maximum_D + OFFSET
    delayed_T = np.array(effort.steps)[:, None] + DELAY
    for estimator in ESTIMATORS:
        rule = Rule(estimator, BATCH, SIZE)
        theta_TDR = effort.ascents(limit.bandit, rule, steps, effort.steps, start_D, "law")
        scaled_TR = gaps(limit.bandit, theta_TDR) * delayed_T
        for count, scaled_R in zip(effort.steps, scaled_TR, strict=True):
            findings.append(judge_law(limit, rule, scaled_R, f"n = {count:,}"))
            curves.append(_curve(rule, limit, scaled_R, count))
        if estimator == "grpo":
            findings += _judge_mean(limit, rule, scaled_TR[-1])
    return findings, pd.concat(curves)
