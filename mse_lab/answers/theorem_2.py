"""Theorem 2: MSE = tr Sigma_oracle / G + O(1/G^2), here with the O() made exact.

    G x MSE(G) = T + zeta / (G-1)

A line in 1/(G-1): intercept T, slope zeta, both of the aggregate. The oracle sees the same
groups, and its MSE is T/G and what not knowing V exactly adds, so that each group size has
an estimate of the slope that is far more precise than a fit to GRPO-type's errors alone,

    zeta = G (G-1) (MSE_GRPO - MSE_oracle) + (G-1) E[Var(V_hat) S],

and G x MSE - zeta/(G-1) one of the intercept. Those of all sizes are averaged with the
inverses of their variances as weights; group sizes share their completions, and the
spread of the average takes that into account.
"""

from collections.abc import Sequence

import numpy as np

from mse_lab.answers.agreement import explain, judge_agreement, p_unequal, ratio_to_law
from mse_lab.answers.claim import Claim, describe, for_all
from mse_lab.answers.evidence import NOTHING, UNTESTED, Evidence
from mse_lab.answers.judgement import holm
from mse_lab.mse.intervals import Statistic

# Three tenths of a coefficient missing, or as much again, would have been seen.
LINE_RESOLUTION = 0.3

LAW = "Theorem 2 (exact law)"
LINE = {"intercept": "Theorem 2 (intercept)", "slope": "Theorem 2 (slope)"}
SAYS = {
    LAW: "The GRPO-type MSE is T/G + zeta/(G(G-1)).",
    LINE["intercept"]: "G x MSE against 1/(G-1) has the intercept T = tr Sigma_oracle.",
    LINE["slope"]: "G x MSE against 1/(G-1) has the slope zeta = Var(Z) S + ||g||^2.",
}


def _average(found: Sequence[Statistic]) -> Statistic | None:
    """Average with the inverses of the variances as weights; None where nothing varies."""
    variances = np.array([one.spread.variance for one in found])
    if not len(found) or (variances <= 0).any():
        return None
    weights = 1 / variances / (1 / variances).sum()
    total = found[0] * weights[0]
    for one, weight in zip(found[1:], weights[1:], strict=True):
        total = total + one * weight
    return total


def _slope_at(evidence: Evidence, size: int) -> Statistic:
    """Estimate zeta of the aggregate from the groups of one size."""
    moments = evidence.moments
    learning = float((moments.value_variance * moments.norm2).sum())
    gap = evidence.mse("grpo", size) - evidence.mse("oracle", size)
    known = Statistic((size - 1) * learning / evidence.pools.prompts**2, {}, {})
    return gap * (size * (size - 1)) + known


def fit_line(evidence: Evidence) -> tuple[Statistic, Statistic] | None:
    """Fit G x MSE against 1/(G-1).

    Returns:
        Intercept and slope; None where there are too few sizes or nothing varies.
    """
    sizes = evidence.group_sizes
    slope = _average([_slope_at(evidence, size) for size in sizes])
    if slope is None or len(sizes) < 2:
        return None
    intercept = _average(
        [evidence.mse("grpo", size) * size - slope * (1 / (size - 1)) for size in sizes]
    )
    return None if intercept is None else (intercept, slope)


def _judge_line(evidence: Evidence) -> list[Claim]:
    fitted = fit_line(evidence)
    if fitted is None:
        return [_no_line(evidence, statement) for statement in LINE.values()]
    targets = (evidence.oracle_trace, evidence.zeta)
    p_values = holm([p_unequal(one, law) for one, law in zip(fitted, targets, strict=True)])
    return [
        _judge_coefficient(evidence, statement, one, law, p_value)
        for statement, one, law, p_value in zip(
            LINE.values(), fitted, targets, p_values, strict=True
        )
    ]


def _no_line(evidence: Evidence, statement: str) -> Claim:
    why = "A line needs two group sizes and rewards that vary."
    return _undecided(evidence, statement, "no line", why)


def _undecided(evidence: Evidence, statement: str, measured: str, why: str) -> Claim:
    runs, says = (evidence.name,), SAYS[statement]
    return Claim(statement, runs, says, measured, "undecided", why)


def _with_interval(evidence: Evidence, number: Statistic) -> str:
    return describe(number.interval(evidence.level, positive=True))


def _judge_coefficient(
    evidence: Evidence, statement: str, fitted: Statistic, law: Statistic, p_value: float
) -> Claim:
    ratio = ratio_to_law(evidence, fitted, law)
    verdict = judge_agreement(ratio, p_value, evidence.alpha, LINE_RESOLUTION)
    return Claim(
        statement,
        (evidence.name,),
        SAYS[statement],
        f"fit {_with_interval(evidence, fitted)}, moments {_with_interval(evidence, law)}, "
        f"fit / moments {describe(ratio)}",
        verdict,
        explain(verdict, LINE_RESOLUTION),
        estimate=ratio,
        p_value=p_value,
    )


def _judge_law(evidence: Evidence) -> list[Claim]:
    pairs = [
        (evidence.mse("grpo", size), evidence.law("grpo", size))
        for size in evidence.group_sizes
    ]
    p_values = holm([p_unequal(measured, law) for measured, law in pairs])
    rows = [
        _judge_size(evidence, size, measured, law, p_value)
        for size, (measured, law), p_value in zip(
            evidence.group_sizes, pairs, p_values, strict=True
        )
    ]
    worst = rows[int(np.argmin(p_values))]
    verdict = for_all(row.verdict for row in rows)
    whole = Claim(
        LAW,
        (evidence.name,),
        SAYS[LAW],
        f"measured / law furthest off at G = {worst.group_size}: "
        f"{describe(worst.estimate)}",
        verdict,
        explain(verdict),
        estimate=worst.estimate,
        p_value=min(p_values),
    )
    return [whole, *rows]


def _judge_size(
    evidence: Evidence, size: int, measured: Statistic, law: Statistic, p_value: float
) -> Claim:
    ratio = ratio_to_law(evidence, measured, law)
    verdict = judge_agreement(ratio, p_value, evidence.alpha)
    return Claim(
        LAW,
        (evidence.name,),
        SAYS[LAW],
        f"MSE {_with_interval(evidence, measured)}, law {law.value:.3g}, "
        f"MSE / law {describe(ratio)}",
        verdict,
        explain(verdict),
        group_size=size,
        estimate=ratio,
        p_value=p_value,
    )


def judge_expansion(evidence: Evidence) -> list[Claim]:
    """Judge Theorem 2: the law at each group size, then the line through all of them."""
    if not evidence.has_replicates:
        return [_undecided(evidence, one, NOTHING, UNTESTED) for one in SAYS]
    return [*_judge_law(evidence), *_judge_line(evidence)]
