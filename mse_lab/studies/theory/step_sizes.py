"""Step sizes: where runs stay with a constant step; where beta/i breaks them; no maximum.

With a constant step theta settles about the maximum with beta Gamma = H S + S H, S its
covariance, so E Delta = tr(H S)/2 = (beta/4) tr(P Gamma) + O(beta^2), P the projector on
the range of H: the noise in curved directions counts, however curved, and that in flat ones
does not. The plain MSE, tr Gamma, is that only where no noise lies in flat directions; a
word that the reward does not see brings noise which training does not feel. A quadratic in
beta is fitted to E Delta / ((beta/4) tr(P Gamma)), which is 1 at 0 if that is so.

Theorem 8's steps are beta/i with beta > 1/(2 mu) >= 1/(2 lambda): the first is so long that
with few completions every estimate but zero leaves the box. With beta/(i + i0) runs stay,
and the limit is the same.

On one tabular prompt of two completions J has no maximum: exp(2 theta) grows like the sum
of the steps, so Delta falls like 1/log(1 + n/i0), and n Delta grows for ever.
"""

from dataclasses import replace
from itertools import product

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.intervals import Estimate
from mse_lab.studies.theory.ascent import Rule, decaying
from mse_lab.studies.theory.bandit import Bandit, tabular
from mse_lab.studies.theory.effort import DELAY, Effort, gaps
from mse_lab.studies.theory.findings import (
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
from mse_lab.studies.theory.lemma_6 import RULE, noise_trace
from mse_lab.studies.theory.limit import Limit
from mse_lab.studies.theory.theorem_8 import BATCH, OFFSET, SIZE

CONSTANTS, SHORT = (0.5, 1.0, 2.0, 4.0, 8.0), 1.0

SETTLE, SNAPSHOTS = 8, 12  # Relaxation times before, and snapshots a relaxation time apart.
BOX = 2.0  # Half-width of the box that first steps may leave.
LENGTHS, FEW = (1000, 4000), 500  # Lengths and number of runs that growth is measured by.

# Prompts and completions of a first step, and beta in units of 1/lambda: Theorem 8's of its
# runs, the least beta that it permits, and both with 1,024 completions.
FIRST = tuple(product((Rule("grpo", BATCH, SIZE), Rule("grpo", 128, 8)), (2.0, 0.5)))


def _settled(limit: Limit, beta: float, effort: Effort) -> Floats:
    """Mean Delta of each run over its snapshots, over (beta/4) tr(P Gamma), (R,)."""
    relaxation = max(1, round(1 / (2 * beta * float(limit.curvatures_K[0]))))
    kept = tuple(relaxation * (SETTLE + snapshot) for snapshot in range(SNAPSHOTS))
    name, start_D = f"constant {beta:g}", limit.bandit.maximum_D
    theta_TDR = effort.ascents(limit.bandit, RULE, lambda _: beta, kept, start_D, name)
    expected = beta / 4 * np.trace(limit.noise(RULE))
    return np.asarray(gaps(limit.bandit, theta_TDR).mean(0) / expected)


def judge_constant_step(limit: Limit, effort: Effort) -> list[Finding]:
    """Fit the ratio in beta: 1 at 0, and further off the longer the step."""
    runs = [_settled(limit, beta, effort) for beta in CONSTANTS]
    means, errors = np.array([(values_R.mean(), error_of(values_R)) for values_R in runs]).T
    curve, covariance = fit(np.vander(CONSTANTS, 3, increasing=True), means, errors)
    estimate = around(curve[0], covariance[0, 0] ** 0.5)
    halved = Estimate(*(end / 2 for end in estimate))
    wrong = Control("beta/2 in the place of beta/4", near(halved, 1.0) == "fails")
    protocol = "E Delta / ((beta/4) tr P Gamma)"
    fitted = f"{protocol} fitted at beta 0.5 to 8"
    return [
        limiting("Constant step, beta to 0", fitted, estimate, wrong),
        limiting("Constant step, beta = 8", protocol, mean_of(runs[-1])),
    ]


def judge_unseen_word(limit: Limit, effort: Effort) -> Finding:
    """Judge the level where noise lies in flat directions, too; the control counts it."""
    few = replace(effort, runs=min(FEW, effort.runs))
    estimate = mean_of(_settled(limit, SHORT, few))
    share = np.trace(limit.noise(RULE)) / noise_trace(limit.bandit.peak, RULE)
    plain = Estimate(*(float(share * end) for end in estimate))
    return limiting(
        "Constant step, a word of 8 unseen",
        f"E Delta / ((beta/4) tr P Gamma), beta = {SHORT:g}",
        estimate,
        Control(f"tr Gamma, {plain.value:.2f}", near(plain, 1.0) == "fails"),
    )


def _judge_first_step(limit: Limit, effort: Effort, rule: Rule, speed: float) -> Finding:
    """Share of runs beyond a box after one step; the control has i0."""
    shares, start_D = [], limit.bandit.maximum_D + OFFSET
    for delay in (0, DELAY):
        steps, name = decaying(replace(limit, speed=speed).beta, delay), f"first {delay}"
        run = effort.ascents(limit.bandit, rule, steps, (1,), start_D, name)
        shares.append(mean_of((limit.away(run) > BOX).astype(float)))
    estimate, delayed = shares
    return Finding(
        f"Theorem 8, beta/i, {speed:g}/lambda, N = {rule.batch * rule.size:,}",
        f"share of runs beyond the box of half-width {BOX:g} after one step",
        estimate,
        0.0,
        "premise fails" if estimate.low > 0 else near(estimate, 0.0),
        Control(f"beta/(i + {DELAY}), share {delayed.value:g}", delayed.value == 0),
    )


def judge_first_steps(limit: Limit, effort: Effort) -> list[Finding]:
    """Take few completions a step and many, and two lengths of step."""
    return [_judge_first_step(limit, effort, rule, speed) for rule, speed in FIRST]


def _growth(
    effort: Effort, bandit: Bandit, beta: float, start_D: Floats, highest: float
) -> Estimate:
    """The power of n by which E n Delta grows between the two lengths."""
    steps, rule = decaying(beta, DELAY), Rule("grpo", BATCH, SIZE)
    theta_TDR = effort.ascents(bandit, rule, steps, LENGTHS, start_D, "growth")
    first, last = gaps(bandit, theta_TDR, highest)
    errors = [error_of(gaps_R) / gaps_R.mean() for gaps_R in (first, last)]
    times = np.log((LENGTHS[1] + DELAY) / (LENGTHS[0] + DELAY))
    # As if the two were independent: they rise and fall together, so the error is less.
    return around(1 + np.log(last.mean() / first.mean()) / times, np.hypot(*errors) / times)


def judge_tabular(limit: Limit, effort: Effort) -> Finding:
    """One tabular prompt has no maximum: n Delta grows like n / log(1 + n/i0)."""
    few, best = replace(effort, runs=min(FEW, effort.runs)), limit.bandit.maximum_D
    highest = float(limit.bandit.value(best))
    estimate = _growth(few, tabular(2), limit.beta, np.zeros(2), 1.0)
    opposed = _growth(few, limit.bandit, limit.beta, best + OFFSET, highest)
    first, last = np.log1p(np.array(LENGTHS) / DELAY)
    law = 1 - np.log(last / first) / np.log((LENGTHS[1] + DELAY) / (LENGTHS[0] + DELAY))
    return Finding(
        "Assumptions 4, 6, 7, one tabular prompt",
        f"power of n by which E n Delta grows from n = {LENGTHS[0]:,} to {LENGTHS[1]:,}; "
        f"n / log(1 + n/{DELAY}) would give {law:.2f}",
        estimate,
        0.0,
        "premise fails" if estimate.low > SHARE else near(estimate, 0.0),
        Control(f"opposed prompts, {opposed.value:.2f}", opposed.high < estimate.low),
    )
