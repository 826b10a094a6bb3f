"""Theorem 2: MSE = tr Sigma_oracle / G + O(1/G^2), here with the O() made exact.

    G x MSE(G) = T + zeta / (G-1)

A line in 1/(G-1): intercept T, slope zeta, both of the aggregate. It is fitted to the
replicates' MSEs by weighted least squares, the weights one over the bootstrap variances.
Group sizes share their completions, so the intervals come from fitting every bootstrap
draw, and what is tested is the fit minus the moments, draw by draw.
"""

import numpy as np
from statsmodels.api import WLS, add_constant

from mse_lab.claims.agreement import explain, judge_agreement, ratio_to_law
from mse_lab.claims.claim import Claim, describe, for_all
from mse_lab.claims.drawn import Drawn, holm
from mse_lab.claims.evidence import NOTHING, UNTESTED, Evidence

LAW = "Theorem 2 (exact law)"
LINE = {"intercept": "Theorem 2 (intercept)", "slope": "Theorem 2 (slope)"}
SAYS = {
    LAW: "The GRPO-type MSE is T/G + zeta/(G(G-1)).",
    LINE["intercept"]: "G x MSE against 1/(G-1) has the intercept T = tr Sigma_oracle.",
    LINE["slope"]: "G x MSE against 1/(G-1) has the slope zeta = Var(Z) S + ||g||^2.",
}


def fit_line(evidence: Evidence) -> tuple[Drawn, Drawn] | None:
    """Fit G x MSE against 1/(G-1).

    Returns:
        Intercept and slope; None where there are too few sizes or nothing varies.
    """
    sizes = np.array(evidence.group_sizes, dtype=float)
    scaled = [evidence.mse("grpo", size) * size for size in evidence.group_sizes]
    draws_BS = np.stack([one.draws_B for one in scaled], axis=-1)
    variance_S = draws_BS.var(0)
    if len(sizes) < 2 or (variance_S <= 0).any():
        return None
    model = WLS(
        np.array([one.value for one in scaled]),
        add_constant(1 / (sizes - 1)),
        weights=1 / variance_S,
    )
    point = model.fit().params
    coefficients_B2 = (draws_BS / np.sqrt(variance_S)) @ model.pinv_wexog.T
    degrees = scaled[0].degrees
    intercept, slope = (
        Drawn(float(point[column]), coefficients_B2[:, column], degrees)
        for column in (0, 1)
    )
    return intercept, slope


def _judge_line(evidence: Evidence) -> list[Claim]:
    fitted = fit_line(evidence)
    if fitted is None:
        return [_no_line(evidence, statement) for statement in LINE.values()]
    targets = (evidence.oracle_trace, evidence.zeta)
    p_values = holm(
        [(one - law).p_not_zero() for one, law in zip(fitted, targets, strict=True)]
    )
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


def _judge_coefficient(
    evidence: Evidence, statement: str, fitted: Drawn, law: Drawn, p_value: float
) -> Claim:
    ratio = ratio_to_law(evidence, fitted, law)
    verdict = judge_agreement(ratio, p_value, evidence.alpha)
    return Claim(
        statement,
        (evidence.name,),
        SAYS[statement],
        f"fit {describe(fitted.interval(evidence.level))}, moments "
        f"{describe(law.interval(evidence.level))}, fit / moments {describe(ratio)}",
        verdict,
        explain(verdict),
        estimate=ratio,
        p_value=p_value,
    )


def _judge_law(evidence: Evidence) -> list[Claim]:
    pairs = [
        (evidence.mse("grpo", size), evidence.law("grpo", size))
        for size in evidence.group_sizes
    ]
    p_values = holm([(measured - law).p_not_zero() for measured, law in pairs])
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
    evidence: Evidence, size: int, measured: Drawn, law: Drawn, p_value: float
) -> Claim:
    ratio = ratio_to_law(evidence, measured, law)
    verdict = judge_agreement(ratio, p_value, evidence.alpha)
    return Claim(
        LAW,
        (evidence.name,),
        SAYS[LAW],
        f"MSE {describe(measured.interval(evidence.level))}, law {law.value:.3g}, "
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
