"""Corollary 10: no baseline of the prompt alone makes n Delta smaller than the oracle's.

Its condition, score norms uncorrelated with rewards at the maximum, says b* = V. But for a
log-linear policy E_x[S (b* - V)] = tr Hess J, which a maximum keeps below zero: the
condition holds only where the Hessian is zero, and then Theorem 8 does not.
"""

import numpy as np

from mse_lab.answers.judgement import Verdict
from mse_lab.studies.theory.ascent import Rule
from mse_lab.studies.theory.findings import ROUNDING, Control, Finding, exactly, identity
from mse_lab.studies.theory.limit import Limit
from mse_lab.studies.theory.noise import baseline


def _verdict(best_to_oracle: float, premise: float) -> Verdict:
    """Judge the conclusion; where it is false, whether its premise, b* = V, is too."""
    if best_to_oracle >= 1 - ROUNDING:
        return "holds"
    return "fails" if abs(premise) <= ROUNDING else "premise fails"


def judge_corollary_10(name: str, limit: Limit) -> list[Finding]:
    """Enumerate both sides, and the conclusion without its condition."""
    peak = limit.bandit.peak
    trace, norms = float(np.trace(peak.hessian_DD)), peak.moments.norm2
    gap = float((norms * (baseline("best-constant", peak) - peak.value_P)).mean())
    turned = abs(gap + trace) > 0.1 * abs(trace)
    best, oracle = (
        limit.weights(Rule(one, 2, 4)).sum() for one in ("best-constant", "oracle")
    )
    return [
        identity(
            f"Corollary 10, trace, {name}",
            f"E[S (b* - V)] = {gap:.4f}, off tr Hess J by",
            abs(gap - trace) / abs(trace),
            Control("the other sign", turned),
        ),
        Finding(
            f"Corollary 10, {name}",
            "E n Delta of the best constant baseline over the oracle's, B = 2, G = 4",
            exactly(best / oracle),
            1.0,
            _verdict(best / oracle, gap / norms.mean()),
        ),
    ]
