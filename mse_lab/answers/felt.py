"""Which group size is best by the noise that training feels.

Plain G* is best for E||g_hat - g||^2. Training feels only the part of that error along
which the reward curves (`mse_lab.mse.metric_forms`); it is measured on a sample of prompts.
"""

import json
import math
from typing import Literal, NamedTuple

from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.mse.metric import MetricPools, MetricPopulation

Optimizer = Literal["adamw", "sgd"]


class Felt(NamedTuple):
    """What training feels of a gradient's noise, with intervals over prompts."""

    metric: str  # `curvature` (SGD), `adam`, or `optimizer` (Adam by a checkpoint's state).
    prompts: int  # How many were sampled.
    trained: int  # How many the probe has, for `best_in_training`.
    # The constants in that metric, for prompts that are not trained on.
    c1: Estimate
    c2: Estimate
    c3: Estimate
    # Their 1 + sqrt(c3/c1); 1 where c3 is not positive, infinite where c1 is not, and
    # unknown where neither is.
    best: Estimate
    best_in_training: Estimate  # The same for the mean reward of the probe's own prompts.
    # G* for the error of the preconditioned gradient, without curvature; the plain one for
    # SGD.
    best_first_order: Estimate
    # By `regret.choose_size`; None where noise is estimated not to cost anything.
    recommended: int | None
    plain: int  # The size that the plain advice recommends.
    # Completions that noise as harmful takes at that size, over those at `recommended`;
    # unknown where noise does not measurably cost.
    cost_of_plain: Estimate
    # The share of the noise at `plain` that helps, by prompts; chance adds to it.
    helps: float
    own: float  # How much more a prompt's pairs (c3) cost itself than another prompt.

    @property
    def optimizer(self) -> Optimizer:
        """The optimiser whose training feels it."""
        return "sgd" if self.metric == "curvature" else "adamw"

    @property
    def is_known(self) -> bool:
        """Whether there is a best size, and its interval has an end."""
        bounded = self.best.low > 1 or math.isfinite(self.best.high)
        return self.recommended is not None and bounded


def _own_share(population: MetricPopulation) -> float:
    """Divide what noise costs a prompt itself by what it costs another one."""
    pairs_PP = population.forms.pairs_KP
    count = len(pairs_PP)
    own = pairs_PP.trace() / count
    others = (pairs_PP.sum() - pairs_PP.trace()) / (count * (count - 1))
    return float(own / others) if others > 0 else math.nan


def feel(pools: MetricPools, plain: int, level: float) -> Felt:
    """Say what training feels; `plain` is the size, two or more, of the plain advice."""
    settings, felt = json.loads(pools.settings), pools.felt
    c1, c2, c3 = (felt.constant(name, level) for name in ("c1", "c2", "c3"))
    recommended = felt.choose()
    cost = UNKNOWN if recommended is None else felt.ratio(plain, recommended, level)
    return Felt(
        metric="optimizer" if settings["optimizer"] else settings["kind"],
        prompts=len(pools.prompts_P),
        trained=pools.trained,
        c1=c1,
        c2=c2,
        c3=c3,
        best=felt.best_group_size(level),
        best_in_training=pools.felt_in_training.best_group_size(level),
        best_first_order=pools.first_order.best_group_size(level),
        recommended=recommended,
        plain=plain,
        cost_of_plain=cost,
        helps=felt.shares(plain)[1],
        own=_own_share(felt),
    )
