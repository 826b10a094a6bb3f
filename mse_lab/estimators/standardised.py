"""A baseline from the group, divided by the group's spread.

Dividing weights prompts by their difficulty, so the mean is the gradient of another
objective. For rewards in {0, 1} it is slope(V) g with, c ~ Binomial(G, V) of G right,

    slope(V) = E[w_right c / V - w_wrong (G - c) / (1 - V)] / G.

No raw MSE compares these with the others: see their slope and scale-free MSE beside it.
Of public constants eps, verl adds 1e-6, TRL 1e-4 and OpenRLHF 1e-9; the default 0 is the
paper's formula, since a group of equal rewards has weight zero by rule.
"""

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from mse_lab.arrays import Floats, divide
from mse_lab.estimators.deviations import (
    Ddof,
    NonNegative,
    deviations,
    divide_or_zero,
    spread,
)
from mse_lab.estimators.groups import Groups
from mse_lab.estimators.leave_one_out import grpo

Level = Annotated[float, Field(gt=0, lt=1)]


def grpo_std(groups: Groups, *, eps: NonNegative = 0.0, ddof: Ddof = 1) -> Floats:
    """GRPO as published: w_i = (Z_i - Zbar) / (s + eps).

    Biased. For rewards in {0, 1}, eps 0 and ddof 1 the slope is
    sqrt((G-1)/G^3) E[sqrt(c (G-c))] / (V (1-V)), and for large G 1 / sqrt(V (1-V)): the
    objective 2 arcsin sqrt V. A group of equal rewards has weight zero. arXiv 2402.03300.

    With rewards [1, 0, 0, 0] s = 1/2 and the weights are 3/2, -1/2, -1/2, -1/2.
    """
    rewards = groups.rewards_PRG
    return divide_or_zero(deviations(rewards), spread(rewards, ddof=ddof), eps)


def grpo_loo_std(groups: Groups, *, eps: NonNegative = 0.0, ddof: Ddof = 1) -> Floats:
    """Leave-one-out mean, the group's spread: w_i = (Z_i - mean_{j!=i} Z_j) / (s + eps).

    Biased: G/(G-1) times `grpo-std`. A group of equal rewards has weight zero. The spread
    must not leave i out too: with one right of four it would be 0 for that one, and the
    weight 1/eps. Algorithm 2 of arXiv 2603.01162.

    With rewards [1, 0, 0, 0] s = 1/2 and the weights are 2, -2/3, -2/3, -2/3.
    """
    return divide_or_zero(grpo(groups), spread(groups.rewards_PRG, ddof=ddof), eps)


def median(groups: Groups, *, eps: NonNegative = 1e-3) -> Floats:
    """MC-GRPO: w_i = G/(G-1) (Z_i - med) / (MAD + eps), MAD = median |Z_j - med|.

    The completion at the median has weight zero and is not counted, so the sum is divided
    by G - 1; by G where none stands at the median, which takes an even group (the paper's
    are odd). Biased. For rewards in {0, 1} and odd G the MAD is always 0 and the slope
    E[c / V if 2c < G else (G-c) / (1-V)] / (eps (G-1)), around 1/eps: only the scale-free
    MSE means something. A group of equal rewards has weight zero; with eps 0 so has one
    whose MAD is 0. arXiv 2601.22582.

    With rewards [1, 0, 0, 0] the weights are 4/3 * 1000, 0, 0, 0.
    """
    rewards = groups.rewards_PRG
    size = rewards.shape[-1]
    distances = rewards - np.median(rewards, axis=-1, keepdims=True)
    mad = np.median(abs(distances), axis=-1, keepdims=True)
    has_pivot = (distances == 0).any(-1, keepdims=True)
    scaled = distances * np.where(has_pivot, size / (size - 1), 1.0)
    return divide(scaled, mad + eps)


def quantile(
    groups: Groups, *, level: Level = 0.4, eps: NonNegative = 0.0, ddof: Ddof = 1
) -> Floats:
    """QAE: w_i = (Z_i - b) / (s + eps), b = inf{z: F(z) >= level}, F the group's own.

    Biased. For rewards in {0, 1}, b = 0 where Zbar <= 1 - level, so only right completions
    have weight, and b = 1 elsewhere, so only wrong ones. A group of equal rewards has
    weight zero. arXiv 2509.22611, where the level is K.

    With rewards [1, 0, 0, 0] b = 0, s = 1/2 and the weights are 2, 0, 0, 0.
    """
    rewards = groups.rewards_PRG
    # 0.28 * 25 is 7.000000000000001: without the margin its ceiling would be 8.
    rank = math.ceil(level * rewards.shape[-1] - 1e-9)
    baseline = np.sort(rewards, axis=-1)[..., rank - 1 : rank]
    return divide_or_zero(rewards - baseline, spread(rewards, ddof=ddof), eps)
