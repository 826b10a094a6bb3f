"""Epochs: a constant step where every prompt comes once an epoch, in a new order each time.

By `epoch_noise.py` E Delta at the ends of epochs is, direction by direction of the Hessian,

    (eta^2 lambda/2) / (1 - q^2) (c1 charged + c2 + c3/(G-1)) / N,   q = 1 - eta lambda,

charged = G for prompts drawn anew. So Theorem 7's best size holds for these, and in epochs
a larger one is best, which grows with N.
"""

from dataclasses import replace

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.probe.streams import stream
from mse_lab.studies.theory.ascent import Rule, draw_gradients
from mse_lab.studies.theory.effort import Effort, gaps
from mse_lab.studies.theory.epoch_noise import charged_size
from mse_lab.studies.theory.findings import (
    Control,
    Finding,
    around,
    error_of,
    exactly,
    limiting,
    near,
)
from mse_lab.studies.theory.limit import Limit
from mse_lab.studies.theory.noise import noise_of

# N, eta, and the sizes that divide N into batches which divide the prompts.
BUDGET, ETA, SIZES = 24, 0.5, (3, 6, 12)

# Relaxation times before, and of the epochs whose ends are looked at; runs at most.
SETTLE, LOOK, FEW = 4.0, 3.0, 1500

# N at which the best sizes of the law are set side by side.
BUDGETS = (24, 48, 96, 192)


def level(limit: Limit, size: Floats | float, budget: int, *, dealt: bool) -> Floats:
    """E Delta of GRPO-type about a maximum, of the linear recursion."""
    noise = noise_of("grpo", limit.bandit.peak)
    prompts, total = len(limit.bandit.offsets_PK), np.zeros(())
    for curvature, axis in zip(limit.curvatures_K, limit.directions_DK.T, strict=True):
        kept = 1 - ETA * curvature
        between, within, pairs = (axis @ part @ axis for part in vars(noise).values())
        charged = np.asarray(size, dtype=float)
        if dealt:
            # `between` divides by P; of a draw without replacement it is P - 1.
            share = prompts / (prompts - 1)
            charged = share * charged_size(size, budget / prompts, np.inf, -np.log(kept))
        cost = (between * charged + within + pairs / (np.asarray(size) - 1)) / budget
        total = total + ETA**2 * curvature / 2 / (1 - kept**2) * cost
    return total


def _settled(limit: Limit, size: int, effort: Effort) -> Floats:
    """Mean Delta of each run over the ends of epochs, (R,)."""
    rule, prompts = Rule("grpo", BUDGET // size, size), len(limit.bandit.offsets_PK)
    draws = stream(effort.seed, "theory", "epochs", str(size))
    theta_DR = np.repeat(limit.bandit.maximum_D[:, None], effort.runs, 1)
    steps = prompts // rule.batch
    times = 1 / (ETA * float(limit.curvatures_K[0]) * steps)
    first, last = (int(np.ceil(times * so_far)) for so_far in (SETTLE, SETTLE + LOOK))
    ends = []
    for epoch in range(last):
        order_PR = draws.permuted(np.tile(np.arange(prompts), (effort.runs, 1)), axis=1).T
        for drawn_BR in np.split(order_PR, steps):
            found = draw_gradients(limit.bandit, rule, theta_DR, draws, drawn_BR)
            theta_DR = theta_DR + ETA * found
        if epoch >= first:
            ends.append(theta_DR)
    return np.asarray(gaps(limit.bandit, np.array(ends)).mean(0))


def best_size(limit: Limit, budget: int, *, dealt: bool) -> float:
    """Give the size of least E Delta by the law, to 1%."""
    sizes = np.geomspace(1.01, 99, 460)
    return float(sizes[level(limit, sizes, budget, dealt=dealt).argmin()])


def judge_epochs(limit: Limit, effort: Effort) -> list[Finding]:
    """Simulate epochs; set their law's best size against that of prompts drawn anew."""
    few = replace(effort, runs=min(FEW, effort.runs))
    runs = [_settled(limit, size, few) for size in SIZES]
    laws, anew = (
        level(limit, np.array(SIZES), BUDGET, dealt=dealt) for dealt in (True, False)
    )
    ratios = [
        around(one.mean() / law, error_of(one) / law)
        for one, law in zip(runs, laws, strict=True)
    ]
    off = max(range(len(SIZES)), key=lambda at: abs(ratios[at].value - 1))
    wrong = ratios[-1].value * laws[-1] / anew[-1]
    before, found = (
        best_size(limit, BUDGET, dealt=False),
        [best_size(limit, one, dealt=True) for one in BUDGETS],
    )
    listed = ", ".join(
        f"{best:.1f} at N = {budget}" for best, budget in zip(found, BUDGETS, strict=True)
    )
    return [
        limiting(
            "Constant step in epochs",
            f"E Delta over its law, N = {BUDGET}, furthest off at G = {SIZES[off]}",
            ratios[off],
            Control(
                f"prompts drawn anew, {wrong:.2f} at G = {SIZES[-1]}", bool(wrong < 0.9)
            ),
        ),
        Finding(
            "Theorem 7, in epochs",
            f"best G by that law, {listed}; expected is that of prompts drawn anew",
            exactly(found[0]),
            before,
            near(exactly(found[0]), before),
        ),
    ]
