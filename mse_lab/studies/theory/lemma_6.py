"""Lemma 6: bounds on E Delta_n, on a box that no run leaves.

With J L-smooth, ||grad J||^2 >= 2 mu Delta and E||g_hat - grad J||^2 <= M,

    E Delta_i <= (1 - 2 mu eta_i + L mu eta_i^2) E Delta_{i-1} + L eta_i^2 M / 2,

of which (a) is the sum for eta = beta, and (b) the limit of n E Delta_n for beta/i,
L beta^2 M / (4 mu beta - 2). L is that of all parameters; mu and M, which have no positive
or finite value there, are those of a box about the maximum, chosen beforehand. Since
Delta >= 0 the bound holds for what has not left the box, which the runs show to be all.

A loose bound is easily kept, so runs start near the maximum of a bandit with one direction,
where L is hardly above mu: bounds with half of the noise M are exceeded there.

On `opposed` prompts J is a sum over directions, so the constants of the box are sums, or
the least or largest, of those of its axes; a grid on each of them gives these.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from mse_lab.arrays import Floats
from mse_lab.mse.intervals import Estimate
from mse_lab.studies.theory.ascent import Rule, Steps, decaying
from mse_lab.studies.theory.bandit import Point
from mse_lab.studies.theory.effort import DELAY, Effort, gaps
from mse_lab.studies.theory.findings import SHARE, Control, Finding, at_most, mean_of
from mse_lab.studies.theory.limit import Limit
from mse_lab.studies.theory.noise import noise_of

GRID = 2000  # Points of a grid; an even number leaves out the maximum, where mu is 0/0.
EVERYWHERE = 12.0  # Beyond it, along any axis, curvature only falls.

# Steps of a run; where it begins; the box for either kind of steps.
LENGTH, OFFSET, WIDE, NARROW = 400, 0.1, 1.0, 0.8

RULE = Rule("grpo", 8, 4)
CONSTANT = 1.0
PARTS = ("(a), constant step", "(b), beta/(i + i0)")


class Constants(NamedTuple):
    """L, mu and M."""

    smoothness: float
    pull: float
    noise: float

    def bound(self, steps: Steps, first: float, length: int) -> Floats:
        """The bound on E Delta_i, i = 0 to n, (T,)."""
        bounds = [first]
        for i in range(1, length + 1):
            eta = steps(i)
            kept = 1 - 2 * self.pull * eta + self.smoothness * self.pull * eta**2
            bounds.append(kept * bounds[-1] + self.smoothness * eta**2 * self.noise / 2)
        return np.array(bounds)


def noise_trace(point: Point, rule: Rule) -> Floats:
    """E||g_hat - grad J||^2 at a point, of any number of runs."""
    covariance = noise_of(rule.estimator, point).covariance(rule.batch, rule.size)
    return np.einsum("dd...->...", covariance)


def box_constants(limit: Limit, rule: Rule, half_width: float) -> Constants:
    """L everywhere, mu and M where |Q'(theta - theta*)| <= half_width, for `opposed`."""
    bandit, grid = limit.bandit, np.linspace(-1, 1, GRID)
    highest, at_peak = bandit.value(bandit.maximum_D), float(noise_trace(bandit.peak, rule))
    curved, pulls, more_noise = [], [], []
    for axis_D in limit.directions_DK.T:
        line = bandit.maximum_D[:, None] + EVERYWHERE * axis_D[:, None] * grid
        curved.append(np.einsum("der,d,e->r", bandit.at(line).hessian_DD, axis_D, axis_D))
        theta = bandit.maximum_D[:, None] + half_width * axis_D[:, None] * grid
        point = bandit.at(theta)
        slopes = axis_D @ point.gradients_PD.mean(0)
        pulls.append(slopes**2 / (2 * (highest - bandit.value(theta))))
        more_noise.append(noise_trace(point, rule).max() - at_peak)
    noise = at_peak + max(0.0, float(np.sum(more_noise)))
    return Constants(float(np.abs(curved).max()), float(np.min(pulls)), noise)


def _curve(gaps_TR: Floats, bound_T: Floats) -> pd.DataFrame:
    means = [mean_of(gaps_R) for gaps_R in gaps_TR]
    table = pd.DataFrame(means, columns=["gap", "low", "high"])
    return table.assign(steps=range(len(table)), bound=bound_T)


def _judge(
    name: str, limit: Limit, steps: Steps, half_width: float, effort: Effort
) -> tuple[Finding, pd.DataFrame]:
    """Compare E Delta_n with its bound at every n; the control has half of the noise."""
    start_D = limit.bandit.maximum_D + OFFSET
    theta_TDR = effort.ascents(limit.bandit, RULE, steps, range(LENGTH + 1), start_D, name)
    gaps_TR, away_R = gaps(limit.bandit, theta_TDR), limit.away(theta_TDR)
    constants, first = box_constants(limit, RULE, half_width), float(gaps_TR[0, 0])
    table = _curve(gaps_TR, constants.bound(steps, first, LENGTH)).assign(kind=name)
    halved = constants._replace(noise=constants.noise / 2).bound(steps, first, LENGTH)
    ratios = table[["gap", "low", "high"]].div(table["bound"], axis=0)[1:]
    worst = Estimate(*(float(end) for end in ratios.loc[ratios["high"].idxmax()]))
    left, loose = int((away_R > half_width).sum()), 1 / ratios["gap"].iloc[-1]
    return Finding(
        f"Lemma 6{name}",
        f"largest E Delta_n / bound over n = 1 to {LENGTH}; at the end the bound is "
        f"{loose:.2f} times as large; {left} of {len(away_R)} runs leave the box of "
        f"half-width {half_width:g}; margin {SHARE:g}",
        worst,
        1.0,
        "premise fails" if left else at_most(worst, 1.0 + SHARE),
        Control("the bound with half the noise", bool((table["low"] > halved).any())),
    ), table


def judge_lemma_6(limit: Limit, effort: Effort) -> tuple[list[Finding], pd.DataFrame]:
    """Judge both parts by runs; give E Delta_n and the bounds, too."""
    part_a = _judge(PARTS[0], limit, lambda _: CONSTANT, WIDE, effort)
    part_b = _judge(PARTS[1], limit, decaying(limit.beta, DELAY), NARROW, effort)
    floor = CONSTANT / 4 * float(noise_trace(limit.bandit.peak, RULE))
    table = pd.concat([part_a[1], part_b[1]]).assign(floor=floor)
    return [part_a[0], part_b[0]], table
