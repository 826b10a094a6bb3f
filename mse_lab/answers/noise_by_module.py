"""The noise by kind of module: how much of it sits in attention, in embeddings, ..."""

from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.moments import pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_samples import mean_over_prompts
from mse_lab.probe.module_kinds import KINDS


class ModuleKind(NamedTuple):
    """A kind of module's shares of T, S and zeta."""

    name: str
    trace_oracle: Estimate
    norm2: Estimate
    zeta: Estimate


def _figures_by_kind(pools: Pools) -> Floats:
    """T, S and zeta of each prompt in each kind of module, (3, P, M)."""
    norms2, gamma = pools.kind_norms2_PNM, pools.kind_products_PM
    moments, norm2 = pool_moments(pools), norms2.mean(1)
    # V^2 is too large by its variance, in every kind as in the whole.
    residuals2 = (pools.rewards_PN - pools.value_P[:, None]) ** 2
    lift = np.broadcast_to(moments.value_variance, pools.value_P.shape)
    weighted = ((residuals2 - lift[:, None])[..., None] * norms2).mean(1)
    zeta = moments.variance[:, None] * norm2 + gamma
    return np.stack([weighted - gamma, norm2, zeta])


def share_by_kind(pools: Pools, level: float) -> tuple[ModuleKind, ...]:
    """Share T, S and zeta out among the kinds of module that the policy has."""
    figures = _figures_by_kind(pools)
    shares = []
    for name, of_kind in zip(KINDS, np.moveaxis(figures, -1, 0), strict=False):
        if of_kind[1].any():
            ratios = (
                (mean_over_prompts(part) / mean_over_prompts(whole)).interval(level)
                for part, whole in zip(of_kind, figures.sum(-1), strict=True)
            )
            shares.append(ModuleKind(name, *ratios))
    return tuple(shares)
