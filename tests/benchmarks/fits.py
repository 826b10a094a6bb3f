"""Powers fitted to measurements: least squares on a log-log scale."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats


class Fit(NamedTuple):
    """y = factor x^exponent."""

    factor: float  # At x = 1.
    exponent: float  # The power.
    error: float  # Its standard error; NaN with fewer than three points.

    def __str__(self) -> str:
        if math.isnan(self.error):
            return f"{self.exponent:.2f}"
        return f"{self.exponent:.2f} ± {self.error:.2f}"

    def at(self, x: float) -> float:
        """Give y at x."""
        return self.factor * x**self.exponent

    def solve(self, y: float) -> float:
        """Give the x at which y is reached."""
        return (y / self.factor) ** (1 / self.exponent)


def fit_power(x: Sequence[float], y: Sequence[float]) -> Fit:
    """Fit a power of x to y, both positive.

    >>> round(fit_power([1, 2, 4], [3, 12, 48]).exponent, 6)
    2.0
    """
    line = stats.linregress(np.log(x), np.log(y))
    error = float(line.stderr) if len(x) > 2 else math.nan
    return Fit(math.exp(line.intercept), float(line.slope), error)
