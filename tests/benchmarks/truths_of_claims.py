"""What the numbers and verdicts of `claims` should have been, where the truth is known."""

import math
from collections.abc import Iterator

from benchmarks.truths import HOLDS, Told, Truth
from claimed_runs import is_true
from mse_lab.answers import evidence as e
from mse_lab.answers import statements as s
from mse_lab.estimators import find_estimator

# Which MSE GRPO-type's, or the oracle's in the limit, is set in proportion to.
BASES = {s.NEAR_AT_8: "oracle", s.NEAR_FROM_32: "oracle", s.LARGEST: "vanilla"}


def _stated(claim, own: Truth, whole: Truth) -> float:
    """What a number of a statement should have been; NaN where it has no one truth."""
    about, moments = claim.about, own.moments
    if about in (s.LAW, s.INTERCEPT, s.SLOPE, s.RANDOM_PROMPTS):
        return 1.0
    trace = moments.trace_oracle.sum()
    limits = {
        s.PROMPT_ONLY: moments.trace_best.sum(),
        s.VANILLA: moments.constant_baseline(0.0).sum(),
    }
    if about in limits:
        return float(trace / limits[about])
    if about is s.BEST and claim.group_size is None:
        return float(1 + (whole.constants.c3.item() / whole.constants.c1.item()) ** 0.5)
    if about not in BASES or claim.number.label != f"GRPO-type/{BASES[about]}":
        return math.nan
    if claim.group_size is None:
        return math.nan
    grpo, base = (
        own.decomposed(find_estimator(one), claim.group_size).mse
        for one in ("grpo", BASES[about])
    )
    return float(grpo / base)


def of_claims(result, truth: Truth, whole: Truth) -> Iterator[Told]:
    """Verdicts: a statement that is true is held where it is not said to fail."""
    for claim in e.judge_run(result):
        size = claim.group_size
        at = claim.statement + ("" if size is None else f" at {size}")
        stated = _stated(claim, truth, whole)
        # Of the whole the worst size speaks, whose interval covers less by choice.
        if size is not None or claim.about not in (s.LAW, s.RANDOM_PROMPTS):
            yield Told("numbers of claims", at, claim.number.estimate, stated)
        if is_true(claim.about, truth.moments, size):
            fails = claim.verdict in ("fails", "outside its assumptions")
            yield Told("true statements", claim.statement, HOLDS, 0.0 if fails else 1.0)
