"""Exact laws: a prompt's moments -> the MSE of an estimator at any group size.

For one prompt and any G >= 2, with S = E||W||^2, A = E[Z^2 ||W||^2], B = E[Z ||W||^2],
T = E[(Z-V)^2 ||W||^2] - ||g||^2 and zeta = Var(Z) S + ||g||^2,

    baseline b      (A - 2 b B + b^2 S - ||g||^2) / G
    GRPO-type       T / G + zeta / (G (G-1))

with equality: g_hat_GRPO = g_hat_oracle - (1/(G(G-1))) sum_{i != j} W_i (Z_j - V), the two
parts are uncorrelated, and the second has mean squared norm zeta / (G(G-1)). This is
Theorem 2 of arXiv 2603.01162 with its O() made an equality.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mse_lab.pools import Floats, Pools


@dataclass(frozen=True)
class Moments:
    """Moments of each prompt; arrays of one shape, the last axis P.

    Attributes:
        norm2: S = E||W||^2.
        reward_norm2: B = E[Z ||W||^2].
        reward2_norm2: A = E[Z^2 ||W||^2].
        value: V.
        variance: Var(Z).
        gradient2: gamma = ||g||^2.
        value_variance: Variance of V's own estimate, 0 where V is known: V^2 is too large
            by so much on average.
    """

    norm2: Floats
    reward_norm2: Floats
    reward2_norm2: Floats
    value: Floats
    variance: Floats
    gradient2: Floats
    value_variance: Floats | float = 0.0

    def constant_baseline(self, baseline: Floats | float) -> Floats:
        """E[(Z-b)^2 ||W||^2] - ||g||^2: G times the MSE with baseline b."""
        return (
            self.reward2_norm2
            - 2 * baseline * self.reward_norm2
            + baseline**2 * self.norm2
            - self.gradient2
        )

    @property
    def trace_oracle(self) -> Floats:
        """T = tr Sigma_oracle."""
        return self.constant_baseline(self.value) - self.value_variance * self.norm2

    @property
    def zeta(self) -> Floats:
        """Var(Z) S + ||g||^2."""
        return self.variance * self.norm2 + self.gradient2

    @property
    def best_baseline(self) -> Floats:
        """b* = E[Z ||W||^2] / E||W||^2; V where all scores are zero."""
        out = np.broadcast_to(self.value, self.norm2.shape).copy()
        return np.divide(self.reward_norm2, self.norm2, out=out, where=self.norm2 > 0)


def _vanilla(moments: Moments, size: int) -> Floats:
    return moments.constant_baseline(0.0) / size


def _oracle(moments: Moments, size: int) -> Floats:
    return moments.trace_oracle / size


def _best_constant(moments: Moments, size: int) -> Floats:
    return moments.constant_baseline(moments.best_baseline) / size


def _grpo(moments: Moments, size: int) -> Floats:
    return moments.trace_oracle / size + moments.zeta / (size * (size - 1))


LAWS: dict[str, Callable[[Moments, int], Floats]] = {
    "vanilla": _vanilla,
    "oracle": _oracle,
    "best-constant": _best_constant,
    "grpo": _grpo,
}


def norm_moments(pools: Pools) -> Floats:
    """Average ||W||^2, Z ||W||^2 and Z^2 ||W||^2 over each block, (P, K, 3)."""
    norms2, rewards = pools.norms2_PN, pools.rewards_PN
    columns = [norms2, rewards * norms2, rewards**2 * norms2]
    return np.stack([pools.in_blocks(column).mean(-1) for column in columns], axis=-1)


def pool_moments(
    pools: Pools, norms_P3: Floats | None = None, gradient2: Floats | None = None
) -> Moments:
    """Estimate the moments of each prompt.

    Score norms come from the replicate pool; V, Var(Z) and ||g||^2 from the reference. All
    are unbiased, T too; the plug-in oracle's own MSE exceeds T/G by Var(Z) S / (2 n G), n a
    half of the reference.

    Args:
        pools: The pools.
        norms_P3: The means of `norm_moments` over blocks, resampled or not (..., P, 3);
            by default over all blocks.
        gradient2: ||g||^2 (..., P); by default <r_A, r_B>.
    """
    means = norm_moments(pools).mean(1) if norms_P3 is None else norms_P3
    return Moments(
        norm2=means[..., 0],
        reward_norm2=means[..., 1],
        reward2_norm2=means[..., 2],
        value=pools.value_P,
        variance=pools.reward_variance_P,
        gradient2=pools.reference_product_P if gradient2 is None else gradient2,
        value_variance=pools.reward_variance_P / (2 * pools.reference_half),
    )
