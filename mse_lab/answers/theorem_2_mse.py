"""Theorem 2: MSE = tr Sigma_oracle / G + O(1/G^2), here with the O() made exact.

    G x MSE(G) = T + zeta / (G-1)

A line in 1/(G-1): intercept T, slope zeta, both of the aggregate. The oracle sees the same
groups, and its MSE is T/G, so that each group size has an estimate of the slope that is far
more precise than a fit to GRPO-type's errors alone,

    zeta = G (G-1) (MSE_GRPO - MSE_oracle),

and G x MSE - zeta/(G-1) one of the intercept. Those of all sizes are averaged with the
inverses of their variances as weights; group sizes share their completions, and the
spread of the average takes that into account.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add, mul

import numpy as np

from mse_lab.answers.judgement import JudgedPair, Pair, judge_equal
from mse_lab.answers.measured_run import MeasuredRun
from mse_lab.answers.statement import DRAWS, Claim, Statement, explain_equality, judges
from mse_lab.formatting import with_interval
from mse_lab.mse.intervals import Statistic

# Three tenths of a coefficient missing, or as much again, would have been seen.
LINE_RESOLUTION = 0.3

LAW = Statement(
    "Theorem 2 (exact law)",
    "The GRPO-type MSE is T/G + zeta/(G(G-1)).",
    DRAWS,
    short="MSE = T/G + zeta/(G(G-1))",
    number="measured/law",
)
INTERCEPT = Statement(
    "Theorem 2 (intercept)",
    "G x MSE against 1/(G-1) has the intercept T = tr Sigma_oracle.",
    DRAWS,
    short="G x MSE has intercept T",
    number="measured/law",
)
SLOPE = Statement(
    "Theorem 2 (slope)",
    "G x MSE against 1/(G-1) has the slope zeta = Var(Z) S + ||g||^2.",
    DRAWS,
    short="G x MSE has slope zeta",
    number="measured/law",
)


def _average(statistics: Sequence[Statistic]) -> Statistic | None:
    """Average with the inverses of the variances as weights; None where nothing varies."""
    variances = np.array([statistic.spread.variance for statistic in statistics])
    if (variances <= 0).any():
        return None
    weights = 1 / variances / (1 / variances).sum()
    return reduce(add, map(mul, statistics, weights))


def _slope_at(run: MeasuredRun, size: int) -> Statistic:
    gap = run.mse_of("grpo", size) - run.mse_of("oracle", size)
    return gap * (size * (size - 1))


def fit_line(run: MeasuredRun) -> tuple[Statistic, Statistic] | None:
    """Fit intercept and slope of G x MSE against 1/(G-1).

    None where there are too few sizes or nothing varies.
    """
    slope = _average([_slope_at(run, size) for size in run.sizes])
    if slope is None or len(run.sizes) < 2:
        return None
    intercept = _average(
        [run.mse_of("grpo", size) * size - slope * (1 / (size - 1)) for size in run.sizes]
    )
    return None if intercept is None else (intercept, slope)


def _judge_line(run: MeasuredRun) -> list[Claim]:
    cases = [statement.about(run) for statement in (INTERCEPT, SLOPE)]
    fitted = fit_line(run)
    if fitted is None:
        why = "A line needs two group sizes and rewards that vary."
        return [claim for case in cases for claim in case.undecided("no line", why)]
    pairs = [Pair(0, fitted[0], run.oracle_trace), Pair(0, fitted[1], run.zeta)]
    judged, claims = judge_equal(pairs, run.level, LINE_RESOLUTION), []
    for case, (pair, verdict, p_value, ratio) in zip(cases, judged, strict=True):
        numbers = pair.first, pair.second
        intervals = (number.interval(run.level, positive=True) for number in numbers)
        fit, law, quotient = map(with_interval, (*intervals, ratio))
        measured = f"fit {fit}, moments {law}, fit / moments {quotient}"
        reason = explain_equality(verdict, LINE_RESOLUTION)
        claims.append(case.claim(measured, verdict, reason, ratio, p_value))
    return claims


def _judge_law(run: MeasuredRun) -> list[Claim]:
    def describe(judged: Sequence[JudgedPair]) -> str:
        [(pair, _, _, ratio)] = judged
        mse = with_interval(pair.first.interval(run.level, positive=True))
        return f"MSE {mse}, law {pair.second.value:.3g}, MSE / law {with_interval(ratio)}"

    pairs = [
        Pair(size, run.mse_of("grpo", size), run.law_of("grpo", size)) for size in run.sizes
    ]
    return LAW.about(run).equal(pairs, describe)


@judges(order=20)
def judge_expansion(run: MeasuredRun) -> list[Claim]:
    """Judge Theorem 2: the law at each group size, then the line through all of them."""
    untested = [
        claim
        for statement in (LAW, INTERCEPT, SLOPE)
        for claim in statement.about(run).without_replicates()
    ]
    return untested or [*_judge_law(run), *_judge_line(run)]
