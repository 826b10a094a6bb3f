"""Other objectives than the mean reward: weights over a spread, MaxRL, pass@k, lengths.

Against g itself they count as biased. Dividing by the group's spread weights prompts by
their difficulty: for rewards in {0, 1} the mean is slope(V) g with, c ~ Binomial(G, V),

    slope(V) = E[w_right c / V - w_wrong (G - c) / (1 - V)] / G.

No raw MSE compares these with the others: see their slope and scale-free MSE beside it.
Of public constants eps, verl adds 1e-6, TRL 1e-4 and OpenRLHF 1e-9; the default 0 is the
paper's formula, since a group of equal rewards has weight zero by rule. For rewards in
{0, 1} two are unbiased, for the slope of

    maxrl      log V truncated at order G - 1:  -sum_{k=1}^{G-1} (1-V)^k / k
    pass-at-k  pass@k = 1 - (1-V)^k

Length normalisation is a dial of its own, which multiplies the weight of a completion by

    none         1: the score is the sum over tokens, as in arXiv 2603.01162
    sequence     1 / l_i: the mean over tokens, the original GRPO (arXiv 2402.03300)
    token        G / sum_j l_j over the group: every token counts the same
    token-batch  P G / sum_{x,j} l_xj over the batch: DAPO (arXiv 2503.14476), TRL's default
"""

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from mse_lab.arrays import Floats, Ints, divide
from mse_lab.estimators.baselines import grpo
from mse_lab.estimators.groups import (
    Ddof,
    Groups,
    NonNegative,
    check_binary,
    deviations,
    spread,
)

Level = Annotated[float, Field(gt=0, lt=1)]


def grpo_std(groups: Groups, *, eps: NonNegative = 0.0, ddof: Ddof = 1) -> Floats:
    """GRPO as published: w_i = (Z_i - Zbar) / (s + eps).

    Biased. For rewards in {0, 1}, eps 0 and ddof 1 the slope is
    sqrt((G-1)/G^3) E[sqrt(c (G-c))] / (V (1-V)), and for large G 1 / sqrt(V (1-V)): the
    objective 2 arcsin sqrt V. A group of equal rewards has weight zero. arXiv 2402.03300.

    With rewards [1, 0, 0, 0] s = 1/2 and the weights are 3/2, -1/2, -1/2, -1/2.
    """
    rewards = groups.rewards_PRG
    return divide(deviations(rewards), spread(rewards, ddof=ddof) + eps)


def grpo_loo_std(groups: Groups, *, eps: NonNegative = 0.0, ddof: Ddof = 1) -> Floats:
    """Leave-one-out mean, the group's spread: w_i = (Z_i - mean_{j!=i} Z_j) / (s + eps).

    Biased: G/(G-1) times `grpo-std`. A group of equal rewards has weight zero. The spread
    must not leave i out too: with one right of four it would be 0 for that one, and the
    weight 1/eps. Algorithm 2 of arXiv 2603.01162.

    With rewards [1, 0, 0, 0] s = 1/2 and the weights are 2, -2/3, -2/3, -2/3.
    """
    return divide(grpo(groups), spread(groups.rewards_PRG, ddof=ddof) + eps)


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
    return divide(rewards - baseline, spread(rewards, ddof=ddof) + eps)


Attempts = Annotated[int, Field(ge=1, strict=True)]


def maxrl(groups: Groups, *, eps: NonNegative = 0.0) -> Floats:
    """MaxRL: w_i = (Z_i - Zbar) / (Zbar + eps), 0 where none is right. Rewards in {0, 1}.

    With eps 0 unbiased for the gradient of the log-likelihood truncated at order G - 1:
    slope sum_{k=0}^{G-2} (1-V)^k. Order G would need w = -1 in a group with none right.
    A group of equal rewards has weight zero. arXiv 2602.02710; public code has eps 1e-6.

    With rewards [1, 0, 0, 0] the weights are 3, -1, -1, -1.
    """
    rewards = groups.rewards_PRG
    check_binary(rewards, "maxrl")
    return divide(deviations(rewards), rewards.mean(-1, keepdims=True) + eps)


def pass_at_k(groups: Groups, *, k: Attempts = 2) -> Floats:
    """pass@k: w_i = k Z_i C(G-c, k-1) / C(G-1, k-1), c of G right. Rewards in {0, 1}.

    The ratio is the share of the k - 1 companions drawn from the others that are all
    wrong, so it is unbiased for the gradient of pass@k: slope k (1-V)^(k-1). Needs G >= k.
    k = 1 is `vanilla`; for k >= 2 a group of equal rewards has weight zero. The default 2
    suits every group of two or more. In the line of arXiv 2505.15201.

    With rewards [1, 0, 0, 0] and k = 2 the weights are 2, 0, 0, 0.
    """
    rewards = groups.rewards_PRG
    check_binary(rewards, "pass-at-k")
    size = rewards.shape[-1]
    subsets = math.comb(size - 1, k - 1)
    factors = np.array([k * math.comb(size - c, k - 1) / subsets for c in range(size + 1)])
    right = rewards.sum(-1, keepdims=True).astype(np.int64)
    return rewards * factors[right]


Length = Literal["none", "sequence", "token", "token-batch"]


def normalise_length(weights_PRG: Floats, lengths_PRG: Ints, length: Length) -> Floats:
    """Multiply weights w_i by the factor of a length normalisation, given tokens l_i >= 1.

    >>> import numpy as np
    >>> weights, lengths = np.ones((1, 1, 2)), np.array([[[1, 3]]])
    >>> normalise_length(weights, lengths, "sequence").tolist()
    [[[1.0, 0.3333333333333333]]]
    >>> normalise_length(weights, lengths, "token").tolist()
    [[[0.5, 0.5]]]
    """
    match length:
        case "none":
            return weights_PRG
        case "sequence":
            return weights_PRG / lengths_PRG
        case "token":
            return weights_PRG / lengths_PRG.mean(-1, keepdims=True)
        case "token-batch":
            return weights_PRG / lengths_PRG.mean((0, 2), keepdims=True)
