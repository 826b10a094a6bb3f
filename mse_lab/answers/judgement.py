"""Judgements: from numbers with their spread to verdicts, Holm-corrected by family."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mse_lab.answers.claim import Verdict
from mse_lab.mse.intervals import Statistic

# A loss of this share still counts as none, where no loss is shown.
SMALL_LOSS = 0.05


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct the p-values of one family after Holm.

    >>> [round(p, 10) for p in holm([0.01, 0.04])]
    [0.02, 0.04]
    """
    # By hand, for `multipletests` of statsmodels collects garbage at every call.
    order = np.argsort(p_values)
    times = np.arange(len(order), 0, -1)
    increasing = np.maximum.accumulate(np.array(p_values, dtype=float)[order] * times)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(increasing, 1.0)
    return [float(p) for p in corrected]


def judge_sign(contrast: Statistic, p_value: float, alpha: float) -> Verdict:
    """Judge "it is positive" by the corrected two-sided p-value."""
    if p_value >= alpha:
        return "undecided"
    return "holds" if contrast.value > 0 else "fails"


class Judgement(NamedTuple):
    """A verdict and the corrected p-value of the test behind it."""

    verdict: Verdict
    p_value: float


def _judge_loss(p_larger: float, p_small: float, alpha: float) -> Judgement:
    if p_larger < alpha:
        return Judgement("fails", p_larger)
    return Judgement("holds" if p_small < alpha else "undecided", p_small)


def judge_not_larger(
    pairs: Sequence[tuple[Statistic, Statistic]], alpha: float
) -> list[Judgement]:
    """Judge "the first is not larger than the second" for a family of pairs.

    It fails where the first is shown to be larger, by however little; it holds where that
    is not so and a loss above `SMALL_LOSS` is ruled out.
    """
    gains = [second.exceeding(first) for first, second in pairs]
    larger = holm([gain.p_not_zero() if gain.value < 0 else 1.0 for gain in gains])
    small = holm(
        [
            (second * (1 + SMALL_LOSS)).exceeding(first).p_above_zero()
            for first, second in pairs
        ]
    )
    return [_judge_loss(*both, alpha) for both in zip(larger, small, strict=True)]
