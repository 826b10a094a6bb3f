"""Judgements: from numbers with their spread to verdicts, Holm-corrected by family.

A family is all pairs of numbers that a statement compares. A test that finds no difference
is no proof, so equality `holds` only where the interval of the ratio also lies within a
stated distance of one, and "not larger" only where a small loss is ruled out.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from mse_lab.mse.intervals import Estimate, Statistic

# `premise fails`: it does not hold here, and was said on an assumption that fails.
Verdict = Literal["holds", "fails", "undecided", "premise fails"]

# Half of a number missing, or half as much again, would have been seen.
RESOLUTION = 0.5

# A loss of this share still counts as none, where no loss is shown.
SMALL_LOSS = 0.05


class Pair(NamedTuple):
    """Two numbers that a statement compares at a group size, and a label of their ratio."""

    size: int
    first: Statistic
    second: Statistic
    label: str = ""

    def with_verdict(self, verdict: Verdict, p_value: float, level: float) -> "JudgedPair":
        """Add a verdict and the paired ratio, which is unknown unless it is positive."""
        return JudgedPair(self, verdict, p_value, self.first.ratio_to(self.second, level))


class JudgedPair(NamedTuple):
    """A pair, its verdict, the corrected p-value of the test behind it, and its ratio."""

    pair: Pair
    verdict: Verdict
    p_value: float
    ratio: Estimate


def for_all(verdicts: Iterable[Verdict]) -> Verdict:
    """Judge "for every one": one failure fails it, one doubt leaves it undecided.

    >>> for_all(["holds", "undecided"])
    'undecided'
    """
    given = set(verdicts)
    for verdict in ("fails", "premise fails"):
        if verdict in given:
            return verdict
    return "holds" if given == {"holds"} else "undecided"


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


def decide(fails: bool, holds: bool) -> Verdict:
    """Judge by whether it is shown to fail and, if not, whether it is shown to hold."""
    if fails:
        return "fails"
    return "holds" if holds else "undecided"


def judge_equal(
    pairs: Sequence[Pair], level: float, resolution: float = RESOLUTION
) -> list[JudgedPair]:
    """Judge "the first equals the second" by the test and by the ratio's interval."""
    p_values = holm([pair.first.exceeding(pair.second).p_refuted() for pair in pairs])
    judged = []
    for pair, p_value in zip(pairs, p_values, strict=True):
        result = pair.with_verdict("undecided", p_value, level)
        narrow = result.ratio.low > 1 - resolution and result.ratio.high < 1 + resolution
        judged.append(result._replace(verdict=decide(p_value < 1 - level, narrow)))
    return judged


def judge_smaller(pairs: Sequence[Pair], level: float) -> list[JudgedPair]:
    """Judge "the first is smaller than the second" by the sign of the difference."""
    gains = [pair.second.exceeding(pair.first) for pair in pairs]
    p_values = holm([gain.p_not_zero() for gain in gains])
    judged = []
    for pair, gain, p_value in zip(pairs, gains, p_values, strict=True):
        shown, smaller = p_value < 1 - level, gain.value > 0
        verdict = decide(shown and not smaller, shown)
        judged.append(pair.with_verdict(verdict, p_value, level))
    return judged


def judge_not_larger(pairs: Sequence[Pair], level: float) -> list[JudgedPair]:
    """Judge "the first is not larger than the second".

    It fails where the first is shown to be larger, by however little; it holds where that
    is not so and a loss above `SMALL_LOSS` is ruled out.
    """
    gains = [pair.second.exceeding(pair.first) for pair in pairs]
    larger = holm([gain.p_not_zero() if gain.value < 0 else 1.0 for gain in gains])
    allowed = [(pair.second * (1 + SMALL_LOSS)).exceeding(pair.first) for pair in pairs]
    small = holm([gain.p_above_zero() for gain in allowed])
    judged = []
    for pair, p_larger, p_small in zip(pairs, larger, small, strict=True):
        verdict = decide(p_larger < 1 - level, p_small < 1 - level)
        p_value = p_larger if verdict == "fails" else p_small
        judged.append(pair.with_verdict(verdict, p_value, level))
    return judged
