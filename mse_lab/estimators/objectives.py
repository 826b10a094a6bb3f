"""Unbiased, but for another objective than the mean reward; rewards in {0, 1}.

    maxrl      log V truncated at order G - 1:  -sum_{k=1}^{G-1} (1-V)^k / k
    pass-at-k  pass@k = 1 - (1-V)^k

Their mean is slope(V) g with the slope of the objective in V. Against g itself they count
as biased.
"""

import math
from typing import Annotated

import numpy as np
from pydantic import Field

from mse_lab.arrays import Floats
from mse_lab.estimators.deviations import NonNegative, deviations, divide_or_zero
from mse_lab.estimators.groups import Groups, check_binary

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
    return divide_or_zero(deviations(rewards), rewards.mean(-1, keepdims=True), eps)


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
