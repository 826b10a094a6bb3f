"""A number and its bootstrap draws: differences, ratios and tests that stay paired."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from mse_lab.claims.claim import Verdict
from mse_lab.intervals import Estimate, percentile_interval
from mse_lab.pools import Floats

# A loss of this share still counts as none, where no loss is shown.
SMALL_LOSS = 0.05


@dataclass(frozen=True)
class Drawn:
    """A number with its draws; numbers from one `Evidence` share theirs.

    Attributes:
        value: The estimate.
        draws_B: The same for every resample.
        degrees: Degrees of freedom of the resampling, for the tails of tests.
    """

    value: float
    draws_B: Floats
    degrees: float

    def __add__(self, other: "Drawn") -> "Drawn":
        """Add, draw by draw."""
        return Drawn(
            self.value + other.value,
            self.draws_B + other.draws_B,
            min(self.degrees, other.degrees),
        )

    def __mul__(self, factor: float) -> "Drawn":
        """Scale by a number that is not random."""
        return Drawn(self.value * factor, self.draws_B * factor, self.degrees)

    def __sub__(self, other: "Drawn") -> "Drawn":
        """Subtract, draw by draw."""
        return self + other * -1.0

    def __truediv__(self, base: "Drawn") -> "Drawn":
        """Divide, draw by draw; no number unless the base is positive in every draw."""
        degrees = min(self.degrees, base.degrees)
        if base.value <= 0 or (base.draws_B <= 0).any():
            return Drawn(np.nan, np.full_like(self.draws_B, np.nan), degrees)
        return Drawn(self.value / base.value, self.draws_B / base.draws_B, degrees)

    def interval(self, level: float) -> Estimate:
        """Give the percentile interval."""
        return percentile_interval(self.value, self.draws_B, level)

    def p_above_zero(self) -> float:
        """Test whether it is positive: the one-sided p-value of value / standard error.

        The tail is Student's, so that a single prompt with two blocks proves little.
        """
        error = float(self.draws_B.std(ddof=1))
        if error == 0:
            return float(self.value <= 0)
        return float(stats.t.sf(self.value / error, self.degrees))

    def p_not_zero(self) -> float:
        """Test whether it differs from zero: the two-sided p-value; 1 where all is zero."""
        return min(1.0, 2 * min(self.p_above_zero(), (self * -1.0).p_above_zero()))


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


def judge_sign(contrast: Drawn, p_value: float, alpha: float) -> Verdict:
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


def judge_not_larger(pairs: Sequence[tuple[Drawn, Drawn]], alpha: float) -> list[Judgement]:
    """Judge "the first is not larger than the second" for a family of pairs.

    It fails where the first is shown to be larger, by however little; it holds where that
    is not so and a loss above `SMALL_LOSS` is ruled out.
    """
    gains = [second - first for first, second in pairs]
    larger = holm([gain.p_not_zero() if gain.value < 0 else 1.0 for gain in gains])
    small = holm(
        [(second * (1 + SMALL_LOSS) - first).p_above_zero() for first, second in pairs]
    )
    return [_judge_loss(*both, alpha) for both in zip(larger, small, strict=True)]
