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
about (2/n) Var_i(eps_i <W_i, rbar>), and through V, whose variance is Var(Z) / (2n).
An estimator with E g_hat = slope g has E[error | reference] shifted by the slope's share of
the first and the rest of the second.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mse_lab.laws import LAWS, Moments, norm_moments, pool_moments
from mse_lab.pools import Floats, Pools
from mse_lab.replicates import Key


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
        reference_noise_BP: The standard normals behind the gradient's shift, by which
            rbar(x) varies along r_A(x) - r_B(x).
    """

    shares_BPK: Floats
    error_shift_BP: Floats
    gradient_shift_BP: Floats
    value_shift_BP: Floats
    reference_noise_BP: Floats

    def mean_of_blocks(self, values_PK: Floats) -> Floats:
        """Resample the mean over blocks: (P, K) -> (B, P)."""
        return np.einsum("bpk,pk->bp", self.shares_BPK, values_PK)


def covariance_square_trace(pools: Pools) -> Floats:
    """Estimate tr(Sigma^2) of the oracle's score-weighted residuals, (P,)."""
    residuals = pools.in_blocks(pools.rewards_PN - pools.value_P[:, None])
    terms = (residuals[..., :, None] * residuals[..., None, :] * pools.gram_PKGG) ** 2
    size = pools.largest_group
    pairs = terms.sum((-1, -2)) - np.trace(terms, axis1=-2, axis2=-1)
    return np.asarray(pairs.mean(-1) / (size * (size - 1)))


def _gradient_variance(pools: Pools) -> Floats:
    """Variance of <r_A, r_B> to first order in the reference's noise, (P,)."""
    residuals = pools.rewards_PN - pools.value_P[:, None]
    spread = (residuals * pools.products_PN).var(-1, ddof=1)
    return np.asarray(2 * spread / pools.reference_half)


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
    value_scale = np.sqrt(pools.reward_variance_P / (2 * pools.reference_half))
    return Resamples(
        shares_BPK=counts / drawn,
        error_shift_BP=error_shift,
        gradient_shift_BP=error_shift + first_order,
        value_shift_BP=value_scale * rng.standard_normal(shape),
        reference_noise_BP=noise,
    )


def aggregate_mse(resamples: Resamples, means_PK: Floats) -> Floats:
    """Resample the aggregate's MSE of an unbiased estimator, (1/P^2) sum_x MSE(x), (B,).

    Errors of different prompts are independent with mean zero: no cross terms.
    """
    errors_BP = resamples.mean_of_blocks(means_PK) + resamples.error_shift_BP
    return np.asarray(errors_BP.sum(-1) / errors_BP.shape[-1] ** 2)


def resample_moments(pools: Pools, resamples: Resamples) -> Moments:
    """Resample the moments that the laws need, with the very same draws; arrays (B, P)."""
    norms_BP3 = np.einsum("bpk,pkm->bpm", resamples.shares_BPK, norm_moments(pools))
    moments = pool_moments(
        pools, norms_BP3, pools.reference_product_P + resamples.gradient_shift_BP
    )
    # V stays in the range of the rewards, where laws are defined.
    lowest = pools.reference_rewards_PN.min(-1)
    highest = pools.reference_rewards_PN.max(-1)
    value = np.clip(moments.value + resamples.value_shift_BP, lowest, highest)
    return replace(moments, value=value)


def aggregate_law(name: str, group_size: int, moments: Moments) -> Floats:
    """Evaluate an estimator's law for the aggregate, (1/P^2) sum_x MSE(x), (...)."""
    per_prompt = LAWS[name](moments, group_size)
    return np.asarray(per_prompt.sum(-1) / per_prompt.shape[-1] ** 2)


def percentile_interval(value: float, draws_B: Floats, level: float) -> Estimate:
    """Give a value its percentile interval of the stated level."""
    tail = (1 - level) / 2
    low, high = np.quantile(draws_B, [tail, 1 - tail])
    return Estimate(value, float(low), float(high))


def ratio_interval(
    means_PK: Floats, base_means_PK: Floats, resamples: Resamples, level: float
) -> Estimate:
    """Estimate the ratio of two MSEs, paired: both see the same draws."""
    draws = aggregate_mse(resamples, means_PK) / aggregate_mse(resamples, base_means_PK)
    return percentile_interval(float(means_PK.mean() / base_means_PK.mean()), draws, level)


def law_intervals(
    pools: Pools,
    resamples: Resamples,
    keys: Iterable[Key],
    level: float,
) -> dict[Key, Estimate]:
    """Evaluate the laws at the pool's moments, for the curve points that have one."""
    point, drawn = pool_moments(pools), resample_moments(pools, resamples)
    return {
        key: percentile_interval(
            float(aggregate_law(*key, point)), aggregate_law(*key, drawn), level
        )
        for key in keys
        if key.estimator in LAWS
    }
