"""Moments of a prompt: pools -> the arguments of the exact laws in `laws.py`.

With S = E||W||^2, A = E[Z^2 ||W||^2], B = E[Z ||W||^2] and gamma = ||g||^2,

    T    = E[(Z-V)^2 ||W||^2] - gamma     the trace of the oracle's covariance
    zeta = Var(Z) S + gamma               the cost of a baseline from the group
    b*   = B / S                          the best constant baseline
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.mse.pools import Pools


@dataclass(frozen=True)
class Moments:
    """Moments of each prompt; arrays of one shape, the last axis P."""

    norm2: Floats  # S = E||W||^2.
    reward_norm2: Floats  # B = E[Z ||W||^2].
    reward2_norm2: Floats  # A = E[Z^2 ||W||^2].
    value: Floats  # V.
    variance: Floats  # Var(Z).
    gradient2: Floats  # gamma = ||g||^2.
    # Variance of the estimate of V, by which V^2 is too large on average; 0 for exact V.
    value_variance: Floats | float = 0.0
    # Number of completions that V is the mean of, for rewards 0 and 1; 0 for exact V.
    value_trials: Floats | float = 0
    # By how much the least E[(Z-b)^2 ||W||^2] of these moments is too small, because b* is
    # estimated; 0 for exact moments.
    learning: Floats | float = 0.0
    # E s and E[Z s], s the norm of the logits' score; NaN where it was not recorded.
    logit_norm2: Floats | float = math.nan
    reward_logit_norm2: Floats | float = math.nan
    given_baseline: Floats | None = None  # b*, where it does not follow from these moments.

    def constant_baseline(self, baseline: Floats | float) -> Floats:
        """E[(Z-b)^2 ||W||^2] - ||g||^2: G times the MSE with baseline b."""
        return (
            self.reward2_norm2
            - 2 * baseline * self.reward_norm2
            + baseline**2 * self.norm2
            - self.gradient2
        )

    def affine_baseline(self, alpha: Floats | float, factor: Floats | float) -> Floats:
        """E[(Z-b)^2 ||W||^2] - ||g||^2 at b = alpha + factor V; at (0, 1) it is T."""
        by_value = self.value_reward_norm2 - alpha * self.value_norm2
        return (
            self.constant_baseline(alpha)
            - 2 * factor * by_value
            + factor**2 * self.value2_norm2
        )

    @cached_property
    def value_norm2(self) -> Floats:
        """V S."""
        return self.value * self.norm2

    @cached_property
    def value_reward_norm2(self) -> Floats:
        """V B."""
        return self.value * self.reward_norm2

    @cached_property
    def value2_norm2(self) -> Floats:
        """V^2 S."""
        return (self.value**2 - self.value_variance) * self.norm2

    @cached_property
    def variance_norm2(self) -> Floats:
        """Var(Z) S."""
        return self.variance * self.norm2

    @property
    def trace_oracle(self) -> Floats:
        """T = tr Sigma_oracle."""
        return self.affine_baseline(0.0, 1.0)

    @property
    def trace_best(self) -> Floats:
        """E[(Z-b*)^2 ||W||^2] - ||g||^2, the least of all constant baselines."""
        return self.constant_baseline(self.best_baseline) + self.learning

    @property
    def zeta(self) -> Floats:
        """Var(Z) S + ||g||^2."""
        return self.variance_norm2 + self.gradient2

    @property
    def best_baseline(self) -> Floats:
        """b* = E[Z ||W||^2] / E||W||^2; V where all scores are zero."""
        if self.given_baseline is not None:
            return self.given_baseline
        return divide(self.reward_norm2, self.norm2, otherwise=self.value)


@dataclass(frozen=True, kw_only=True)
class OnePoolMoments(Moments):
    """Moments where V and the score norms come from the same completions.

    The product of two estimates is then biased, so products are estimates of their own, in
    the place of the properties.
    """

    value_norm2: Floats = field()
    value_reward_norm2: Floats = field()
    value2_norm2: Floats = field()
    variance_norm2: Floats = field()


def _cost_of_learning(pools: Pools) -> Floats:
    """Estimate by how much the least mean of (Z-b)^2 ||W||^2 of a pool is too small.

    With b = b* + d, d the error of N completions, S E[d^2] = c/N to first order. The pool's
    own minimum is too small by c/N; if each completion has the b of the N - 1 others, the
    mean is too large by c/(N-1). Weights N/(2N-1) and (N-1)/(2N-1) cancel both.
    """
    norms2, rewards = pools.norms2_PN, pools.rewards_PN
    count = norms2.shape[-1]
    weighted = rewards * norms2
    whole, total = (sums.sum(-1, keepdims=True) for sums in (weighted, norms2))
    baseline = divide(whole, total)
    others = divide(whole - weighted, total - norms2)
    least, left_out = (((rewards - b) ** 2 * norms2).mean(-1) for b in (baseline, others))
    return np.asarray((left_out - least) * (count - 1) / (2 * count - 1))


def pool_moments(pools: Pools) -> Moments:
    """Estimate the moments of each prompt, (P,).

    Score norms come from the replicate pool; V, Var(Z) and ||g||^2 from the reference. All
    are unbiased, T too.
    """
    norms2, rewards = pools.norms2_PN, pools.rewards_PN
    return Moments(
        norm2=norms2.mean(-1),
        reward_norm2=(rewards * norms2).mean(-1),
        reward2_norm2=(rewards**2 * norms2).mean(-1),
        value=pools.value_P,
        variance=pools.reward_variance_P,
        gradient2=pools.reference_product_P,
        value_variance=pools.reward_variance_P / (2 * pools.reference_half),
        value_trials=2 * pools.reference_half,
        learning=_cost_of_learning(pools),
        logit_norm2=pools.logit_norms2_PN.mean(-1),
        reward_logit_norm2=(rewards * pools.logit_norms2_PN).mean(-1),
    )


def completion_moments(pools: Pools) -> Moments:
    """Compute every completion's part in the moments of the pool, (N, P).

    Laws are linear in the moments of the score norms (at b*, to first order): the law at
    the pool's moments is the mean over completions of the laws at these.
    """
    norms2, rewards = pools.norms2_PN.T, pools.rewards_PN.T
    whole = pool_moments(pools)
    return replace(
        whole,
        norm2=norms2,
        reward_norm2=rewards * norms2,
        reward2_norm2=rewards**2 * norms2,
        given_baseline=whole.best_baseline,
    )


@dataclass(frozen=True)
class Proxy:
    """Correlations of the logits norm with ||W||^2; zero where one of them is constant."""

    within: float
    overall: float


def measure_proxy(pools: Pools) -> Proxy | None:
    """Correlate the two norms over the replicate completions; None if not recorded.

    With s and w the two norms, of completions i of prompts x,

        sum_xi (s_xi - s_x)(w_xi - w_x) / sqrt(sum_xi (s_xi - s_x)^2 sum_xi (w_xi - w_x)^2),

    within prompts with their own means s_x and w_x, which is what a baseline over a group
    uses, and in all with the means over all completions.
    """
    logits_PN = pools.logit_norms2_PN
    if np.isnan(logits_PN).any():
        return None

    def correlate(axis: int | None) -> float:
        norms = (logits_PN, pools.norms2_PN)
        one, other = (each - each.mean(axis, keepdims=True) for each in norms)
        scale = np.sqrt((one**2).sum() * (other**2).sum())
        return float(divide((one * other).sum(), scale))

    return Proxy(correlate(1), correlate(None))
