"""Ascent: many runs of Algorithm 1 at once on a bandit, completions drawn.

    theta_i = theta_{i-1} + eta_i g_hat,   g_hat = (1/(BG)) sum_b sum_g w_bg W_bg,

B prompts drawn at random, G completions of each. Only counts of equal completions matter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Floats
from mse_lab.studies.theory.bandit import Bandit
from mse_lab.studies.theory.noise import baseline

# eta_i, i = 1, 2, ...
Steps = Callable[[int], float]


@dataclass(frozen=True)
class Rule:
    """An estimator by name, with B prompts of G completions a step."""

    estimator: str
    batch: int
    size: int


def decaying(beta: float, delay: float) -> Steps:
    """Steps beta / (i + i0)."""
    return lambda i: beta / (i + delay)


def _draw_counts(
    probabilities_BKR: Floats, size: int, draws: np.random.Generator
) -> Floats:
    """Draw G completions a group; how many there are of each, (B, K, R)."""
    batch, _, runs = probabilities_BKR.shape
    below_BKR = np.cumsum(probabilities_BKR, 1)[:, :-1]
    uniforms_GBR = draws.random((size, batch, runs))
    drawn_BKR = np.zeros(below_BKR.shape)
    for uniforms_BR in uniforms_GBR:
        drawn_BKR += uniforms_BR[:, None] < below_BKR
    return np.diff(drawn_BKR, axis=1, prepend=0, append=size)


def draw_gradients(
    bandit: Bandit,
    rule: Rule,
    theta_DR: Floats,
    draws: np.random.Generator,
    drawn_BR: NDArray[np.int64] | None = None,
) -> Floats:
    """Draw an estimate of grad J for each run, (D, R); from given prompts, if any are."""
    (prompts, actions, wide), runs = bandit.features_PKD.shape, theta_DR.shape[1]
    point, each_R = bandit.at(theta_DR), np.arange(runs)
    if drawn_BR is None:
        drawn_BR = draws.integers(prompts, size=(rule.batch, runs))
    of_drawn = drawn_BR[:, None], np.arange(actions)[:, None], each_R
    counts_BKR = _draw_counts(point.probabilities_PK[of_drawn], rule.size, draws)
    rewards_BKR = bandit.rewards_PK[of_drawn[:2]]
    taken_BR = baseline(rule.estimator, point)[drawn_BR, each_R]
    if rule.estimator == "grpo":
        others = rule.size - 1
        taken_BKR = ((counts_BKR * rewards_BKR).sum(1)[:, None] - rewards_BKR) / others
    else:
        taken_BKR = taken_BR[:, None]
    weights_BKR = counts_BKR * (rewards_BKR - taken_BKR)
    weights_BKR -= weights_BKR.sum(1)[:, None] * point.probabilities_PK[of_drawn]
    total_PKR = np.zeros((prompts, actions, runs))
    for drawn_R, weights_KR in zip(drawn_BR, weights_BKR, strict=True):
        total_PKR[drawn_R, :, each_R] += weights_KR.T
    flat = bandit.features_PKD.reshape(-1, wide).T @ total_PKR.reshape(-1, runs)
    return np.asarray(flat / (rule.batch * rule.size))


def ascend(
    bandit: Bandit,
    rule: Rule,
    steps: Steps,
    kept: Sequence[int],
    theta_DR: Floats,
    draws: np.random.Generator,
) -> Floats:
    """Run them; give the parameters after each number of steps that is kept, (T, D, R)."""
    path = [theta_DR] * (0 in kept)
    for i in range(1, max(kept) + 1):
        theta_DR = theta_DR + steps(i) * draw_gradients(bandit, rule, theta_DR, draws)
        if i in kept:
            path.append(theta_DR)
    return np.array(path)
