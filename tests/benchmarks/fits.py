"""Powers fitted to measurements: least squares on a log-log scale."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Fit(NamedTuple):
    """y = factor x^exponent."""

    factor: float  # At x = 1.
    exponent: float  # The power.
    error: float  # Its standard error; NaN with fewer than three points.

    def __str__(self) -> str:
        if np.isnan(self.error):
            return f"{self.exponent:.2f}"
        return f"{self.exponent:.2f} ± {self.error:.2f}"

    def at(self, x: float) -> float:
        """Give y at x."""
        return float(self.factor * x**self.exponent)

    def solve(self, y: float) -> float:
        """Give the x at which y is reached."""
        return float((y / self.factor) ** (1 / self.exponent))


def fit_power(x: Sequence[float], y: Sequence[float]) -> Fit:
    """Fit a power of x to y, both positive.

    >>> fit_power([1, 2, 4], [3, 12, 48]).exponent.round(6)
    np.float64(2.0)
    """
    log_x, log_y = np.log(np.asarray(x, float)), np.log(np.asarray(y, float))
    centred = log_x - log_x.mean()
    spread = (centred**2).sum()
    exponent = (centred * log_y).sum() / spread
    intercept = log_y.mean() - exponent * log_x.mean()
    degrees = len(log_x) - 2
    residuals = log_y - intercept - exponent * log_x
    error = np.sqrt((residuals**2).sum() / degrees / spread) if degrees > 0 else np.nan
    return Fit(float(np.exp(intercept)), exponent, float(error))
