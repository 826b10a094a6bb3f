"""Intervals: one draw of resampled blocks for every estimator, group size and law.

For an unbiased estimator E[error | reference] = MSE + <r_A - g, r_B - g>, so a reported MSE
varies for two reasons:

- the replicates, given the reference. Inside each prompt K - 1 of its K blocks of the
  largest group size are drawn with replacement; K - 1, because a stratified bootstrap of K
  from K is too narrow by the factor (K-1)/K. The draw is the same for all curves, which
  keeps them paired.
- the reference. <r_A - g, r_B - g> has variance tr(Sigma^2) / n^2 with n completions a
  half; one normal shift a prompt, common to all curves, so that it cancels in differences.
  tr(Sigma^2) is the mean of (eps_i eps_j K_ij)^2 over i != j, slightly conservative.

The law depends on the reference through ||g||^2 = <r_A, r_B>, whose further variance is
about (2/n) Var_i(eps_i <W_i, rbar>), and through V and Var(Z) of its rewards. The oracle's
measured MSE depends on V in the same way; without that its interval covered 88% where many
small groups left little other noise. An estimator with E g_hat = slope g has
E[error | reference] shifted by the slope's share of the first and the rest of the second.

Where products K_ij between completions are not known, there are no replicates, and
tr(Sigma^2) is bounded by tr(Sigma)^2: the laws' intervals are then wider than they need be,
as far as ||g||^2 matters to them.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mse_lab.laws import Moments, norm_moments, pool_moments
from mse_lab.pools import Floats, Pools


class Estimate(NamedTuple):
    """A number with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Resamples:
    """The bootstrap draws that everything shares.

    Attributes:
        shares_BPK: Weight of each block in each resample; sums to 1 over K.
        error_shift_BP: Shift of a prompt's squared errors by the reference.
        gradient_shift_BP: Shift of a prompt's <r_A, r_B> by the reference.
        value_shift_BP: Shift of a prompt's V by the reference.
        variance_shift_BP: Shift of a prompt's Var(Z) by the reference.
        reference_noise_BP: The standard normals behind the gradient's shift, by which
            rbar(x) varies along r_A(x) - r_B(x).
    """

    shares_BPK: Floats
    error_shift_BP: Floats
    gradient_shift_BP: Floats
    value_shift_BP: Floats
    variance_shift_BP: Floats
    reference_noise_BP: Floats

    def mean_of_blocks(self, values_PK: Floats) -> Floats:
        """Resample the mean over blocks: (P, K) -> (B, P)."""
        return np.einsum("bpk,pk->bp", self.shares_BPK, values_PK)


def covariance_square_trace(pools: Pools) -> Floats:
    """Estimate tr(Sigma^2) of the oracle's score-weighted residuals eps W, (P,).

    For prompts whose products between completions are not known, and for blocks of one
    completion, this is its upper bound (E eps^2 ||W||^2)^2, by Cauchy-Schwarz: too large
    by the number of directions that share the noise.
    """
    residuals = pools.in_blocks(pools.rewards_PN - pools.value_P[:, None])
    terms = (residuals[..., :, None] * residuals[..., None, :] * pools.gram_PKGG) ** 2
    size = pools.largest_group
    pairs = terms.sum((-1, -2)) - np.trace(terms, axis1=-2, axis2=-1)
    bound_P = (residuals**2 * pools.in_blocks(pools.norms2_PN)).mean((-1, -2)) ** 2
    if size == 1:
        return np.asarray(bound_P)
    trace_P = pairs.mean(-1) / (size * (size - 1))
    return np.where(pools.has_cross_products_P, trace_P, bound_P)


def _gradient_variance(pools: Pools) -> Floats:
    """Variance of <r_A, r_B> to first order in the reference's noise, (P,)."""
    residuals = pools.rewards_PN - pools.value_P[:, None]
    spread = (residuals * pools.products_PN).var(-1, ddof=1)
    return np.asarray(2 * spread / pools.reference_half)


def _draw_reward_shifts(
    pools: Pools, shape: tuple[int, int], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw the shifts of V and of Var(Z) by the reference's rewards, (B, P) each.

    With central moments m2, m3, m4 of the rewards the two have the variances m2/N and
    (m4 - m2^2)/N and the covariance m3/N; for binary rewards one follows from the other.
    """
    centred = pools.reference_rewards_PN - pools.value_P[:, None]
    count = centred.shape[-1]
    m2, m3, m4 = ((centred**power).mean(-1) for power in (2, 3, 4))
    varying = np.maximum(m2, np.finfo(float).tiny)
    own = np.maximum(m4 - m2**2 - m3**2 / varying, 0)
    value_shift = np.sqrt(m2 / count) * rng.standard_normal(shape)
    rest = np.sqrt(own / count) * rng.standard_normal(shape)
    return value_shift, m3 / varying * value_shift + rest


def draw_resamples(
    pools: Pools, resamples: int, rng: np.random.Generator, blocks_drawn: int | None = None
) -> Resamples:
    """Draw the bootstrap.

    Args:
        pools: The pools.
        resamples: B.
        rng: Source of randomness.
        blocks_drawn: Blocks drawn of each prompt's K; by default K - 1, the number that
            gives the right variance. Tests draw K to see the interval fail.
    """
    drawn = blocks_drawn or pools.blocks - 1
    uniform = np.full(pools.blocks, 1 / pools.blocks)
    counts = rng.multinomial(drawn, uniform, size=(resamples, pools.prompts))
    shape = (resamples, pools.prompts)
    error_scale = np.sqrt(covariance_square_trace(pools)) / pools.reference_half
    error_shift = error_scale * rng.standard_normal(shape)
    noise = rng.standard_normal(shape)
    # rbar varies by noise (r_A - r_B)/2, so ||g||^2 by noise <r_A - r_B, rbar>: its sign.
    sign = np.where(np.diag(pools.halves_PP) < 0, -1.0, 1.0)
    first_order = sign * np.sqrt(_gradient_variance(pools)) * noise
    value_shift, variance_shift = _draw_reward_shifts(pools, shape, rng)
    return Resamples(
        shares_BPK=counts / drawn,
        error_shift_BP=error_shift,
        gradient_shift_BP=error_shift + first_order,
        value_shift_BP=value_shift,
        variance_shift_BP=variance_shift,
        reference_noise_BP=noise,
    )


def resample_moments(pools: Pools, resamples: Resamples) -> Moments:
    """Resample the moments that the laws need, with the very same draws; arrays (B, P)."""
    norms_BP3 = np.einsum("bpk,pkm->bpm", resamples.shares_BPK, norm_moments(pools))
    moments = pool_moments(
        pools, norms_BP3, pools.reference_product_P + resamples.gradient_shift_BP
    )
    # V stays in the range of the rewards, where laws are defined.
    lowest = pools.reference_rewards_PN.min(-1)
    highest = pools.reference_rewards_PN.max(-1)
    return replace(
        moments,
        value=np.clip(moments.value + resamples.value_shift_BP, lowest, highest),
        variance=np.maximum(moments.variance + resamples.variance_shift_BP, 0),
        # The draw varies about an estimate that varies itself: V^2 is lifted twice.
        value_variance=2 * moments.value_variance,
    )


def percentile_interval(value: float, draws_B: Floats, level: float) -> Estimate:
    """Give a value its percentile interval of the stated level."""
    tail = (1 - level) / 2
    low, high = np.quantile(draws_B, [tail, 1 - tail])
    return Estimate(value, float(low), float(high))
