"""What the numbers and verdicts of `claims` should have been, where the truth is known."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchmarks.truths import HOLDS, Told, Truth
from mse_lab.estimators import find_estimator
from mse_lab.mse.intervals import Estimate


def _is_true(row, truth: Truth) -> bool | None:
    """Whether a statement about a run's own prompts is true; None where that is unknown."""
    moments, sizes = truth.moments, row.group_size
    trace, zeta = moments.trace_oracle.sum(), moments.zeta.sum()
    vanilla, best = moments.constant_baseline(0.0).sum(), moments.trace_best.sum()
    size = math.inf if pd.isna(sizes) else float(sizes)
    name, grpo = row.statement, trace + zeta / (size - 1)
    always = ("Lemma 1", "Theorem 2", "Proposition 3", "Corollary 4", "Theorem 7")
    if name.startswith(always) or name == "Section 5.1 (falls with G)":
        return True
    if name.startswith("Assumption 2"):
        return bool(np.allclose(moments.best_baseline, moments.value, rtol=1e-6))
    if name == "Corollary 5 (prompt-only baselines)":
        return bool(trace <= best * (1 + 1e-9))
    if name == "Corollary 5 (vanilla)":
        return bool(grpo < vanilla)
    if name == "Section 5.1 (vanilla largest)" and size < math.inf:
        return bool(max(grpo, trace) < vanilla)
    if name.startswith("Section 5.1") and size < math.inf:
        return bool(grpo <= 1.05 * trace)
    return None


def _stated(row, own: Truth, whole: Truth) -> float:
    """What the number of a statement should have been; NaN where it has no one truth."""
    name, moments = row.statement, own.moments
    if name in ("Theorem 2 (intercept)", "Theorem 2 (slope)"):
        return 1.0
    if pd.isna(row.group_size):
        best, vanilla = moments.trace_best, moments.constant_baseline(0.0)
        trace = moments.trace_oracle.sum()
        limits = {
            "Corollary 5 (prompt-only baselines)": trace / best.sum(),
            "Corollary 5 (vanilla)": trace / vanilla.sum(),
            "Corollary 10": whole.weighted_distance,
        }
        return float(limits.get(name, math.nan))
    bases = {
        "Theorem 2 (exact law)": "grpo",
        "Corollary 4": "oracle",
        "Corollary 5 (prompt-only baselines)": "best-constant",
        "Corollary 5 (vanilla)": "vanilla",
    }
    if name == "Proposition 3":
        return 1.0
    if name not in bases:
        return math.nan
    grpo, base = (
        own.decomposed(find_estimator(one), int(row.group_size)).mse
        for one in ("grpo", bases[name])
    )
    return float(grpo / base)


def of_claims(result, truth: Truth, whole: Truth) -> Iterator[Told]:
    """Verdicts: a statement that is true is held where it is not said to fail."""
    for row in result.claims().itertuples():
        stated = Estimate(row.value, row.low, row.high)
        at = row.statement + ("" if pd.isna(row.group_size) else f" at {row.group_size}")
        yield Told("numbers of claims", at, stated, _stated(row, truth, whole))
        if row.kind != "argument" and _is_true(row, truth):
            fails = row.verdict in ("fails", "premise fails")
            yield Told("true statements", row.statement, HOLDS, 0.0 if fails else 1.0)
