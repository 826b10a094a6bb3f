"""Where a measured curve over group sizes has its peak, and whether it is where predicted.

`values_SG` holds J of S independent seeds, each trained at every group size. If a run's
loss is its noise, J(G) = a - b [G + rho^2/(G-1)] with b > 0, largest at G* = 1 + rho.

A  The interval of log rho - log(G*_pred - 1), seeds left out one at a time, holds zero.
B  Hsu's comparisons with the best: the set of group sizes none of which is shown to be
   worse than another holds the one nearest G*_pred.
C  The means lie on a line in the path's N MSE; Hotelling's T^2 of what is left of them.

All presume that J differs over the group sizes at all, Friedman's test. They are put to a
false prediction, too, 8 G*_pred: where it is not refused, a true one is not confirmed.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats

from mse_lab.answers.judgement import Verdict, decide
from mse_lab.answers.predicted_group_size import Predicted
from mse_lab.arrays import Floats
from mse_lab.mse.intervals import Estimate, Spread

# Times G*_pred: what a false prediction says.
FALSE = 8.0

# log rho is looked for between these; an end is no answer.
LOG_RHO = (math.log(0.05), math.log(2000.0))

DRAWS = 20_000


class Curve(NamedTuple):
    """J of each seed at each group size, in rising order."""

    sizes: Floats
    values_SG: Floats

    @property
    def means(self) -> Floats:
        """Mean over seeds, (G,)."""
        return np.asarray(self.values_SG.mean(0))

    def nearest(self, size: float) -> int:
        """Give the place of the group size nearest to another, as a ratio."""
        return int(np.argmin(abs(np.log(self.sizes / size))))

    def differ(self) -> float:
        """Test that J is the same at all group sizes (Friedman): the p-value."""
        ranked = self.values_SG
        if len(ranked) < 2 or ranked.shape[1] < 3 or not np.ptp(ranked, axis=1).any():
            return 1.0
        return float(stats.friedmanchisquare(*ranked.T).pvalue)


def _line(x: Floats, means: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Slope of the weighted line in x (..., G), and the weighted squares that it leaves."""
    x = x - (x @ weights)[..., None] / weights.sum()
    y = means - np.average(means, weights=weights)
    slope = (x @ (weights * y)) / (x**2 @ weights)
    return slope, (weights * y) @ y - slope**2 * (x**2 @ weights)


def _bent(log_rho: Floats | float, sizes: Floats) -> Floats:
    """G + rho^2/(G-1), in rows of rho."""
    rho2 = np.exp(2 * np.asarray(log_rho))[..., None]
    return np.asarray(sizes + rho2 / (sizes - 1))


def _misfit(log_rho: float, sizes: Floats, means: Floats, weights: Floats) -> float:
    """Derivative of the squares in log rho, over -4 times the slope: 0 at the least.

    The least value itself would give the place to half of a number's digits only.
    """
    x = _bent(log_rho, sizes)
    left = weights * (means - _line(x, means, weights)[0] * x)
    return float((x - sizes) @ (left - weights * left.sum() / weights.sum()))


def fit_peak(sizes: Floats, means: Floats, weights: Floats) -> float:
    """Fit log rho by weighted least squares; NaN where the curve has no peak inside.

    >>> x = np.array([2.0, 4, 8, 16])
    >>> round(math.exp(fit_peak(x, -(x + 9 / (x - 1)), np.ones(4))), 6)
    3.0
    """
    grid = np.linspace(*LOG_RHO, 60)
    best = int(np.argmin(_line(_bent(grid, sizes), means, weights)[1]))
    if not 0 < best < len(grid) - 1:
        return math.nan
    ends = grid[best - 1], grid[best + 1]
    fit = sizes, means, weights
    if _misfit(ends[0], *fit) * _misfit(ends[1], *fit) >= 0:
        return math.nan
    found = optimize.brentq(_misfit, *ends, args=fit, xtol=1e-13)
    slope, _ = _line(_bent(found, sizes), means, weights)
    return float(found) if slope < 0 else math.nan


class Peak(NamedTuple):
    """log rho with its jackknife variance over so many seeds."""

    log_rho: float
    variance: float
    seeds: int

    def interval(self, level: float) -> Estimate:
        """Give G* = 1 + rho its interval."""
        return Estimate(*(1 + math.exp(end) for end in self._minus(0.0, 0.0, 1, level)))

    def missed_by(self, predicted: Predicted, level: float, factor: float = 1) -> Estimate:
        """Compare with a prediction, G* taken so many times: the interval of a logarithm.

        log rho - log(factor G*_pred - 1), whose variance is that of both.
        """
        other = math.log(factor * predicted.best - 1)
        return self._minus(other, predicted.error**2, predicted.degrees, level)

    def _minus(self, other: float, variance: float, degrees: int, level: float) -> Estimate:
        both = ((self.variance, self.seeds), (variance, degrees + 1))
        uncertainty = sum(2 * one**2 / (count + 1) for one, count in both)
        spread = Spread(self.variance + variance, uncertainty)
        quantile = float(stats.t.ppf((1 + level) / 2, spread.degrees))
        value, reach = self.log_rho - other, quantile * math.sqrt(spread.variance)
        return Estimate(value, value - reach, value + reach)


def measure_peak(curve: Curve) -> Peak:
    """Fit a curve's peak, with weights by the seeds' spread; seeds left out one by one."""
    values_SG, seeds = curve.values_SG, len(curve.values_SG)
    spread = values_SG.var(0, ddof=1)
    weights = 1 / np.maximum(spread, 1e-3 * spread.max())
    others = [
        fit_peak(curve.sizes, np.delete(values_SG, one, axis=0).mean(0), weights)
        for one in range(seeds)
    ]
    variance = (seeds - 1) * float(np.var(others))
    return Peak(fit_peak(curve.sizes, curve.means, weights), variance, seeds)


def judge_peak(peak: Peak, predicted: Predicted, level: float) -> Verdict:
    """Judge test A."""

    def holds_zero(found: Estimate) -> bool:
        return found.low <= 0 <= found.high

    found = peak.missed_by(predicted, level)
    if not math.isfinite(found.high):
        return "undecided"
    false = holds_zero(peak.missed_by(predicted, level, FALSE))
    return decide(not holds_zero(found), not false)


class Regret(NamedTuple):
    """How much the best of the others gains over a group size, 0 where nothing."""

    value: float
    low: float
    high: float
    in_set: bool


def _critical(correlation: Floats, degrees: int, level: float) -> float:
    """Quantile of the largest of several Student's t; by 20,000 draws, always the same."""
    rng = np.random.Generator(np.random.Philox(key=len(correlation)))
    # The symmetric root: no other is the same whatever signs a library gives its vectors.
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    normal = rng.standard_normal((DRAWS, len(correlation))) @ root
    scale = np.sqrt(rng.chisquare(degrees, DRAWS) / degrees)
    return float(np.quantile(normal.max(1) / scale, level))


def regrets(curve: Curve, level: float) -> list[Regret]:
    """Compare each group size with the best of the others (Hsu 1981), paired by seed.

    A group size is in the set unless another is shown to be better, one-sidedly.
    """
    seeds, found = len(curve.values_SG), []
    for place in range(len(curve.sizes)):
        others = np.delete(curve.values_SG, place, axis=1)
        gains_SJ = others - curve.values_SG[:, [place]]
        covariance = np.atleast_2d(np.cov(gains_SJ.T))
        error = np.sqrt(np.maximum(covariance.diagonal(), 1e-18))
        correlation = covariance / np.outer(error, error)
        reach = _critical(correlation, seeds - 1, level) * error / math.sqrt(seeds)
        gains = gains_SJ.mean(0)
        ends = ((gains + sign * reach).max() for sign in (0, -1, 1))
        value, low, high = (max(0.0, float(end)) for end in ends)
        found.append(Regret(value, low, high, bool(low == 0)))
    return found


def judge_set(curve: Curve, found: list[Regret], best: float, tolerance: float) -> Verdict:
    """Judge test B: the group size nearest the predicted best, beside the false one's."""
    one, false = (found[curve.nearest(size)] for size in (best, FALSE * best))
    close = one.value <= tolerance
    return decide(not one.in_set, close and not false.in_set)


def judge_line(curve: Curve, predicted: Predicted, level: float) -> tuple[Verdict, float]:
    """Judge test C, beside the N MSE of the false G*; its p-value, NaN with few seeds."""
    sizes, rho = curve.sizes, FALSE * predicted.best - 1
    p_value = lack_of_fit(curve, predicted.mse_times_budget(sizes))
    p_false = lack_of_fit(curve, sizes + rho**2 / (sizes - 1))
    return decide(p_value < 1 - level, p_false < 1 - level), p_value


def lack_of_fit(curve: Curve, path_mse: Floats) -> float:
    """Test what is left of the means beside a line in N MSE; the p-value.

    The part of each seed's curve that is orthogonal to 1 and to N MSE has mean zero:
    Hotelling's T^2, with no assumption on the seeds' covariance. NaN with too few seeds.
    """
    seeds, sizes = curve.values_SG.shape
    basis = np.linalg.qr(np.stack([np.ones(sizes), path_mse], 1), mode="complete")[0]
    left_SC = curve.values_SG @ basis[:, 2:]
    count = left_SC.shape[1]
    if seeds <= count or count < 1:
        return math.nan
    mean, covariance = left_SC.mean(0), np.atleast_2d(np.cov(left_SC.T))
    squared = seeds * mean @ np.linalg.solve(covariance, mean)
    scaled = squared * (seeds - count) / (count * (seeds - 1))
    return float(stats.f.sf(scaled, count, seeds - count))
