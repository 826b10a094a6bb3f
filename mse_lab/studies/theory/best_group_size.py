"""The best group size of the limit: Theorem 7's formula in the metric of Theorem 8.

At N = B G completions a step E N (n + i0) Delta tends to c1 G + c2 + c3/(G-1). The three
are fitted to runs at several G; log(G* - 1) = (log c3 - log c1) / 2 has its interval by the
delta method. On prompts of two completions c3 = 2 c1 at any maximum, for there
Var(Z) E||W||^2 = (V(1-V))^2 ||f(x,1) - f(x,2)||^2 = ||g||^2.
"""

import numpy as np
import pandas as pd

from mse_lab.arrays import Floats
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.studies.theory.ascent import Rule, decaying
from mse_lab.studies.theory.effort import DELAY, Effort, gaps
from mse_lab.studies.theory.findings import (
    Control,
    Finding,
    around,
    distance,
    error_of,
    exactly,
    fit,
    identity,
    limiting,
    near,
)
from mse_lab.studies.theory.limit import Limit
from mse_lab.studies.theory.theorem_8 import judge_law

# N, the G, that of which the distribution is judged, too, and where runs begin.
BUDGET, SIZES, SHOWN, OFFSET = 12, (2, 3, 4, 6, 12), 4, 0.05

TWO_ACTIONS = 1 + 2**0.5

MARGIN = 0.26  # Largest error of log(G* - 1) that counts as none: a factor of 1.3.


def fit_best_size(means_G: Floats, errors_G: Floats) -> Estimate:
    """Fit log(G* - 1) to E N n Delta at `SIZES`; unknown unless c1 and c3 are positive."""
    sizes = np.array(SIZES, dtype=float)
    design = np.stack([sizes, np.ones(len(sizes)), 1 / (sizes - 1)], axis=1)
    (between, _, pairs), covariance = fit(design, means_G, errors_G)
    if min(between, pairs) <= 0:
        return UNKNOWN
    slope = np.array([-1 / between, 0.0, 1 / pairs]) / 2
    return around(np.log(pairs / between) / 2, np.sqrt(slope @ covariance @ slope))


def judge_two_actions(limit: Limit) -> Finding:
    """Two completions a prompt: 1 + sqrt 2 always."""
    moments = limit.bandit.peak.moments
    plain = 1 + np.sqrt(moments.zeta.mean() / moments.gradient2.mean())
    sizes = np.array([limit.best_size, plain])
    return identity(
        "Best G, two actions, is 1 + sqrt 2",
        "1 + sqrt(c3/c1) of the limit and of the plain MSE, off 2.414 by",
        distance(sizes, np.full(2, TWO_ACTIONS)),
        Control("sqrt(c3/c1), the form for large G", distance(sizes - 1, sizes) > 0.1),
    )


def judge_unseen_word(limit: Limit) -> Finding:
    """Say which size has the least MSE where a word adds noise that training ignores."""
    moments = limit.bandit.peak.moments
    plain = exactly(1 + np.sqrt(moments.zeta.mean() / moments.gradient2.mean()))
    return Finding(
        "Theorem 7, a word of 8 unseen",
        "1 + sqrt(c3/c1) of the plain MSE; expected is that of the limit",
        plain,
        limit.best_size,
        near(plain, limit.best_size),
    )


def _simulate(limit: Limit, effort: Effort, count: int, size: int) -> Floats:
    """(n + i0) Delta of runs at a group size G, (R,)."""
    rule, steps = Rule("grpo", BUDGET // size, size), decaying(limit.beta, DELAY)
    start_D = limit.bandit.maximum_D + OFFSET
    theta_TDR = effort.ascents(limit.bandit, rule, steps, (count,), start_D, "budget")
    return np.asarray((count + DELAY) * gaps(limit.bandit, theta_TDR)[0])


def judge_best_size(limit: Limit, effort: Effort) -> tuple[list[Finding], pd.DataFrame]:
    """Simulate over G at a fixed N; give the curve, too."""
    (between, within, pairs), count = limit.constants("grpo"), 2 * effort.steps[0]
    runs = {size: _simulate(limit, effort, count, size) for size in SIZES}
    rows = [
        (size, *(BUDGET * value for value in (gaps_R.mean(), error_of(gaps_R))), law)
        for size, gaps_R in runs.items()
        for law in [between * size + within + pairs / (size - 1)]
    ]
    table = pd.DataFrame(rows, columns=["group_size", "gap", "error", "limit"])
    rule, where = Rule("grpo", BUDGET // SHOWN, SHOWN), f"six actions, n = {count:,}"
    shown = judge_law(limit, rule, runs[SHOWN], where)
    return [shown, _judge_best(limit, table), _judge_mean(table)], table


def _judge_best(limit: Limit, table: pd.DataFrame) -> Finding:
    fitted = fit_best_size(table["gap"].to_numpy(), table["error"].to_numpy())
    expected, two = (float(np.log(size - 1)) for size in (limit.best_size, TWO_ACTIONS))
    return Finding(
        "Best G of the limit, six actions",
        f"1 + sqrt(c3/c1) fitted to runs at N = {BUDGET}, G = {SIZES[0]} to {SIZES[-1]}",
        Estimate(*(1 + float(np.exp(end)) for end in fitted)),
        limit.best_size,
        near(fitted, expected, MARGIN),
        Control("two actions' 2.414", near(fitted, two, 0.0) == "fails"),
    )


def _judge_mean(table: pd.DataFrame) -> Finding:
    ratios, errors = (table[name] / table["limit"] for name in ("gap", "error"))
    worst = int(abs(ratios - 1).argmax())
    return limiting(
        "E n Delta over G at fixed N",
        f"over its limit (c1 G + c2 + c3/(G-1))/N, furthest off at G = {SIZES[worst]}",
        around(ratios[worst], errors[worst]),
    )
