"""The noise by kind of module: how much of it sits in attention, in embeddings, ..."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mse_lab.mse.intervals import Estimate
from mse_lab.mse.moments import Moments, pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_samples import mean_over_prompts
from mse_lab.probe.module_kinds import KINDS


class ModuleKind(NamedTuple):
    """A kind of module's shares of T, S and zeta."""

    name: str
    trace_oracle: Estimate
    norm2: Estimate
    zeta: Estimate


def _moments_by_kind(pools: Pools) -> Moments:
    """Moments with the score norms and gradients of each kind of module, (M, P)."""
    norms2_MPN = np.moveaxis(pools.kind_norms2_PNM, -1, 0)
    return replace(
        pool_moments(pools),
        norm2=norms2_MPN.mean(-1),
        reward_norm2=(pools.rewards_PN * norms2_MPN).mean(-1),
        reward2_norm2=(pools.rewards_PN**2 * norms2_MPN).mean(-1),
        gradient2=pools.kind_products_PM.T,
    )


def share_by_kind(pools: Pools, level: float) -> tuple[ModuleKind, ...]:
    """Share T, S and zeta out among the kinds of module that the policy has."""
    moments = _moments_by_kind(pools)
    parts_3MP = np.stack([moments.trace_oracle, moments.norm2, moments.zeta])
    shares = []
    for name, parts_3P in zip(KINDS, np.moveaxis(parts_3MP, 1, 0), strict=False):
        if parts_3P[1].any():
            ratios = (
                (mean_over_prompts(part_P) / mean_over_prompts(whole_P)).interval(level)
                for part_P, whole_P in zip(parts_3P, parts_3MP.sum(1), strict=True)
            )
            shares.append(ModuleKind(name, *ratios))
    return tuple(shares)
