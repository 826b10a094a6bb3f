"""How well the logits norm of a completion stands for its squared score norm ||W||^2.

A trainer has the logits norms of its forward pass, and may weigh a baseline by them where
||W||^2 would be best. Over completions i of prompts x, with s and w the two norms,

    sum_xi (s_xi - s_x)(w_xi - w_x) / sqrt(sum_xi (s_xi - s_x)^2 sum_xi (w_xi - w_x)^2)

is their correlation: within prompts with s_x and w_x the prompt's means, which is what a
baseline over a group uses, and in all with the means over all completions.
"""

from dataclasses import dataclass

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.mse.pools import Pools


@dataclass(frozen=True)
class Proxy:
    """Correlations of the logits norm with ||W||^2; zero where one of them is constant."""

    within: float
    overall: float


def _correlation(deviations_N: Floats, others_N: Floats) -> float:
    scale = np.sqrt((deviations_N**2).sum() * (others_N**2).sum())
    return float(divide((deviations_N * others_N).sum(), scale))


def measure_proxy(pools: Pools) -> Proxy | None:
    """Correlate the two norms over the replicate completions; None if not recorded."""
    logits_PN = pools.logit_norms2_PN
    if np.isnan(logits_PN).any():
        return None
    diagonal = pools.gram_PKGG.diagonal(axis1=-2, axis2=-1).astype(np.float64)
    norms2_PN = diagonal.reshape(logits_PN.shape)
    pairs = [
        [norms - norms.mean(axis, keepdims=True) for norms in (logits_PN, norms2_PN)]
        for axis in (1, None)
    ]
    return Proxy(*(_correlation(*pair) for pair in pairs))
