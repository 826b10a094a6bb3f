"""Step sizes: where a constant one leaves the runs; where beta/i breaks them; no maximum.

With a constant step theta settles about the maximum with beta Gamma = H S + S H, S its
covariance, so E Delta = tr(H S)/2 = (beta/4) tr Gamma + O(beta^2): the plain MSE there,
whatever the curvature. A quadratic in beta is fitted to E Delta / ((beta/4) tr Gamma),
which is 1 at 0 if that is so.

Theorem 8's steps are beta/i with beta > 1/(2 mu) >= 1/(2 lambda): the first is so long that
runs leave every box of use. With beta/(i + i0) they stay, and the limit is the same.
"""

from dataclasses import replace

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.intervals import Estimate
from mse_lab.theory.ascent import Rule, decaying
from mse_lab.theory.bandit import Bandit, tabular
from mse_lab.theory.effort import DELAY, Effort, gaps
from mse_lab.theory.findings import (
    SHARE,
    Control,
    Finding,
    around,
    error_of,
    fit,
    limiting,
    mean_of,
    near,
)
from mse_lab.theory.lemma_6 import RULE, WIDE, noise_trace
from mse_lab.theory.limit import Limit
from mse_lab.theory.theorem_8 import BATCH, OFFSET, SIZE

CONSTANTS = (0.5, 1.0, 2.0, 4.0, 8.0)

# Relaxation times before, and snapshots a relaxation time apart.
SETTLE, SNAPSHOTS = 8, 12

# Lengths and runs by which growth is seen.
LENGTHS, FEW = (1000, 4000), 500


def _settled(limit: Limit, beta: float, effort: Effort) -> Floats:
    """Mean Delta of each run over its snapshots, over (beta/4) tr Gamma, (R,)."""
    relaxation = max(1, round(1 / (2 * beta * float(limit.curvatures_K[0]))))
    kept = tuple(relaxation * (SETTLE + snapshot) for snapshot in range(SNAPSHOTS))
    name, start_D = f"constant {beta:g}", limit.bandit.maximum_D
    found = effort.ascents(limit.bandit, RULE, lambda _: beta, kept, start_D, name)
    expected = beta / 4 * noise_trace(limit.bandit.peak, RULE)
    return np.asarray(gaps(limit.bandit, found).mean(0) / expected)


def judge_constant_step(limit: Limit, effort: Effort) -> list[Finding]:
    """Fit the ratio in beta: 1 at 0, and further off the longer the step."""
    runs = [_settled(limit, beta, effort) for beta in CONSTANTS]
    means, errors = np.array([(one.mean(), error_of(one)) for one in runs]).T
    curve, covariance = fit(np.vander(CONSTANTS, 3, increasing=True), means, errors)
    found = around(curve[0], covariance[0, 0] ** 0.5)
    halved = Estimate(*(end / 2 for end in found))
    wrong = Control("beta/2 in the place of beta/4", near(halved, 1.0) == "fails")
    said = "E Delta / ((beta/4) tr Gamma)"
    return [
        limiting(
            "Constant step, beta to 0", f"{said} fitted at beta 0.5 to 8", found, wrong
        ),
        limiting("Constant step, beta = 8", said, mean_of(runs[-1])),
    ]


def _judge_first_step(limit: Limit, effort: Effort, speed: float) -> Finding:
    """Share of runs beyond the box of Lemma 6 after one step; the control has i0."""
    shares, start_D = [], limit.bandit.maximum_D + OFFSET
    for delay in (0, DELAY):
        steps, name = decaying(replace(limit, speed=speed).beta, delay), f"first {delay}"
        rule = Rule("grpo", BATCH, SIZE)
        run = effort.ascents(limit.bandit, rule, steps, (1,), start_D, name)
        shares.append(mean_of((limit.away(run) > WIDE).astype(float)))
    found, delayed = shares
    return Finding(
        f"Theorem 8, beta/i, beta = {speed:g}/lambda",
        f"share of runs beyond the box of half-width {WIDE:g} after one step",
        found,
        0.0,
        "premise fails" if found.low > 0 else near(found, 0.0),
        Control(f"beta/(i + {DELAY}), share {delayed.value:g}", delayed.value == 0),
    )


def judge_first_steps(limit: Limit, effort: Effort) -> list[Finding]:
    """Take beta as in Theorem 8's runs, and the least that the theorem permits."""
    return [_judge_first_step(limit, effort, speed) for speed in (limit.speed, 0.5)]


def _growth(
    effort: Effort, bandit: Bandit, beta: float, start_D: Floats, highest: float
) -> Estimate:
    """The power of n by which E n Delta grows between the two lengths."""
    steps, rule = decaying(beta, DELAY), Rule("grpo", BATCH, SIZE)
    found = effort.ascents(bandit, rule, steps, LENGTHS, start_D, "growth")
    first, last = gaps(bandit, found, highest)
    errors = [error_of(one) / one.mean() for one in (first, last)]
    times = np.log((LENGTHS[1] + DELAY) / (LENGTHS[0] + DELAY))
    # As if the two were independent: they rise and fall together, so the error is less.
    return around(1 + np.log(last.mean() / first.mean()) / times, np.hypot(*errors) / times)


def judge_tabular(limit: Limit, effort: Effort) -> Finding:
    """One tabular prompt has no maximum: n Delta grows as if there were no limit."""
    few, best = replace(effort, runs=min(FEW, effort.runs)), limit.bandit.maximum_D
    highest = float(limit.bandit.value(best))
    found = _growth(few, tabular(2), limit.beta, np.zeros(2), 1.0)
    opposed = _growth(few, limit.bandit, limit.beta, best + OFFSET, highest)
    return Finding(
        "Assumptions 4, 6, 7, one tabular prompt",
        f"power of n by which E n Delta grows from n = {LENGTHS[0]:,} to {LENGTHS[1]:,}",
        found,
        0.0,
        "premise fails" if found.low > SHARE else near(found, 0.0),
        Control(f"opposed prompts, {opposed.value:.2f}", opposed.high < found.low),
    )
