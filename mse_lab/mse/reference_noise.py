"""Reference noise: the effect of the finite reference on every number of a run.

For an unbiased estimator E[error | reference] = MSE + <r_A - g, r_B - g>, whose variance is
tr(Sigma^2) / n^2 with n completions a half. tr(Sigma^2) is the mean of (e_i e_j K_ij)^2
over i != j, slightly conservative. There e^2 is eps^2 + Var(Z) / (n-1), as the baselines of
a half are means of the others' rewards; Var(Z) / (2n) of it is in eps already, whose V is
estimated. All curves share one normal shift for each prompt, so that it cancels in
differences.

The law depends on the reference through ||g||^2 = <r_A, r_B>, whose further variance is
about (2/n) Var_i(eps_i <W_i, rbar>), and through V and Var(Z) of its rewards; so does the
oracle's measured MSE. V and <r_A, r_B> come from the same completions, so where right ones
are rare, they rise and fall together. For an estimator with E g_hat = slope g,
E[error | reference] is shifted by slope times the shift of the errors of an unbiased
estimator plus 1 - slope times the shift of ||g||^2.

Where products K_ij between completions are not known, tr(Sigma^2) is bounded by
tr(Sigma)^2: intervals of laws are wider than they need be, as far as ||g||^2 matters.

If g is zero, the variance of the aggregate's ||g||^2 is the sum over prompts of the
variance tr(Sigma^2) / n^2 of <r_A, r_B> and of the square of the noise in the products with
the other prompts, <r_A(x) - r_B(x), sum rbar(x')>.

Over random prompts ||g||^2 is that by every completion of a run, reference and replicates
together. A pair of different completions gives an unbiased product of gradients. Known are
the products between the halves of the reference (n completions each), between N replicates
and the reference, and between replicates of one block of G,

    <r_A, r_B>                        n^2 pairs
    <g_N, rbar>                       2 n N pairs, g_N the leave-one-out gradient of all N
    the U-statistic of each block     K G (G-1) / 2 pairs, G >= 4 (`one_pool.py`)

and ||g||^2 is their mean, a pair counting once. Where g is small every pair is as noisy as
another, so these weights are the best: the variance is tr(Sigma^2) over the number of
pairs. Beyond that it varies to first order as a mean over all 2 n + N completions.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.estimators.groups import is_binary
from mse_lab.mse.moments import Moments, pool_moments
from mse_lab.mse.one_pool import LEAST_COMPLETIONS, Stack, gradient_terms
from mse_lab.mse.pools import Pools, without_diagonal


class RewardNoise(NamedTuple):
    """The effect of the noise of the reference's rewards in every draw, (B, P)."""

    value: Floats  # Shift of V.
    variance: Floats  # Shift of Var(Z).
    product: Floats  # Factor of <r_A, r_B>, of mean one.
    mean: Floats  # Factor of rbar, of mean one.


@dataclass(frozen=True)
class ReferenceNoise:
    """Draws of the reference's noise, which all numbers of a run share."""

    error_shift_BP: Floats  # Shift of a prompt's squared errors.
    gradient_shift_BP: Floats  # Shift of a prompt's <r_A, r_B>, at the same rewards.
    # Shift of rbar(x) in units of (r_A(x) - r_B(x)) / 2, at the same rewards.
    normals_BP: Floats
    rewards: RewardNoise  # The effect of the rewards' noise.
    degrees: float  # Degrees of freedom of the variance of the errors' shift.

    def of_rewards(self) -> "ReferenceNoise":
        """Keep the effect of the rewards alone; laws are linear in the other shifts."""
        nothing = np.zeros_like(self.normals_BP)
        return replace(self, gradient_shift_BP=nothing, normals_BP=nothing)


def _square_products(pools: Pools) -> Floats:
    """Compute terms (P, N) whose mean over completions estimates tr(Sigma^2) of e W.

    A term is the mean over j != i of (e_i e_j K_ij)^2; where these are not known, or in
    blocks of one, e_i^2 ||W_i||^2 times the mean of these: a bound by Cauchy-Schwarz, too
    large by a factor of the number of directions that share the noise.
    """
    half = pools.reference_half
    of_baseline_P = pools.reward_variance_P * (1 / (half - 1) - 1 / (2 * half))
    residuals2_PN = (pools.rewards_PN - pools.value_P[:, None]) ** 2
    residuals2_PN += of_baseline_P[:, None]
    each_PN = residuals2_PN * pools.norms2_PN
    residuals2 = pools.in_blocks(residuals2_PN)
    terms = residuals2[..., :, None] * residuals2[..., None, :] * pools.gram_PKGG**2
    pairs = terms.sum(-1) - np.diagonal(terms, axis1=-2, axis2=-1)
    size = pools.largest_group
    means_PN = divide(pairs.reshape(each_PN.shape), size - 1, otherwise=np.nan)
    unknown_P1 = np.isnan(means_PN).any(-1, keepdims=True)
    return np.where(unknown_P1, each_PN * each_PN.mean(-1, keepdims=True), means_PN)


def covariance_square_trace(pools: Pools) -> Floats:
    """Estimate tr(Sigma^2) of a half's score-weighted residuals e W, (P,)."""
    return np.asarray(_square_products(pools).mean(-1))


def _degrees(terms_PN: Floats) -> float:
    """Degrees of freedom of sum_x tr(Sigma_x^2)."""
    # A mean over pairs varies to first order four times as much as that of its terms.
    uncertainty = 4 * terms_PN.var(-1, ddof=1).sum() / terms_PN.shape[-1]
    total = float(terms_PN.mean(-1).sum())
    return float(2 * total**2 / uncertainty) if uncertainty > 0 else float("inf")


def product_spread(pools: Pools) -> Floats:
    """Variance over completions of eps <W, rbar>, (P,)."""
    residuals = pools.rewards_PN - pools.value_P[:, None]
    return np.asarray((residuals * pools.products_PN).var(-1, ddof=1))


def _gradient_variance(pools: Pools) -> Floats:
    """Variance of <r_A, r_B> to first order in the reference's noise, (P,)."""
    return 2 * product_spread(pools) / pools.reference_half


def aggregate_norm2_error(pools: Pools) -> float:
    """Estimate the standard error of the aggregate's ||g||^2 where g is zero."""
    alone_P = covariance_square_trace(pools) / pools.reference_half**2
    others_P = without_diagonal(pools.halves_PP).sum(-1) ** 2
    return float(np.sqrt((alone_P + others_P).sum()) / pools.prompts**2)


def _share_of_value(pools: Pools) -> Floats:
    """Share of the gradient's first-order variance that is the noise of V, (P,).

    For rewards 0 and 1 g = V (1-V) (mu_1 - mu_0), with the mean scores of right and wrong
    completions, so that ||g||^2 moves by (1-2V) ||g||^2 / (V (1-V)) per completion and unit
    of eps. The rest is the noise of the mean scores, which does not depend on eps.
    """
    if not is_binary(pools.reference_rewards_PN):
        return np.zeros(pools.prompts)
    value, variance = pools.value_P, pools.reward_variance_P
    by_value = ((1 - 2 * value) * pools.reference_product_P) ** 2
    whole = variance * _gradient_variance(pools) * pools.reference_half / 2
    return np.minimum(divide(by_value, whole), 1.0)


def _standard_normals(shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Draw normals in pairs of opposite sign: odd functions of them have mean zero."""
    half = rng.standard_normal(((shape[0] + 1) // 2, shape[1]))
    return np.concatenate([half, -half])[: shape[0]]


def _draw_binary(pools: Pools, draws: int, rng: np.random.Generator) -> RewardNoise:
    """Draw how many of each half are right, hence the scale V (1-V) of its gradient.

    Each half estimates V (1-V) without bias by n/(n-1) times its own.
    """
    half, value_P = pools.reference_half, pools.value_P
    values = rng.binomial(half, value_P, size=(2, draws, pools.prompts)) / half
    of_half = half / max(half - 1, 1) * values * (1 - values)
    scale = divide(of_half, value_P * (1 - value_P), otherwise=1.0)
    value = values.mean(0)
    unbiased = 2 * half / (2 * half - 1) * value * (1 - value)
    return RewardNoise(
        value=value - value_P,
        variance=unbiased - pools.reward_variance_P,
        product=scale.prod(0),
        mean=scale.mean(0),
    )


def _draw_graded(pools: Pools, draws: int, rng: np.random.Generator) -> RewardNoise:
    """Draw V and Var(Z), of variances m2/N and (m4 - m2^2)/N and covariance m3/N."""
    shape = (draws, pools.prompts)
    centred = pools.reference_rewards_PN - pools.value_P[:, None]
    count = centred.shape[-1]
    m2, m3, m4 = ((centred**power).mean(-1) for power in (2, 3, 4))
    varying = np.maximum(m2, np.finfo(float).tiny)
    residual = np.maximum(m4 - m2**2 - m3**2 / varying, 0)
    value = np.sqrt(m2 / count) * _standard_normals(shape, rng)
    rest = np.sqrt(residual / count) * _standard_normals(shape, rng)
    return RewardNoise(value, m3 / varying * value + rest, np.ones(shape), np.ones(shape))


def draw_reference_noise(
    pools: Pools, draws: int, rng: np.random.Generator
) -> ReferenceNoise:
    """Draw the reference's noise B = `draws` times."""
    shape = (draws, pools.prompts)
    binary = is_binary(pools.reference_rewards_PN)
    rewards = (_draw_binary if binary else _draw_graded)(pools, draws, rng)
    of_error, of_gradient = (_standard_normals(shape, rng) for _ in range(2))
    terms_PN = _square_products(pools)
    error_shift = np.sqrt(terms_PN.mean(-1)) / pools.reference_half * of_error
    rest = np.sqrt(1 - _share_of_value(pools)) * of_gradient
    # rbar varies by normals (r_A - r_B)/2, so ||g||^2 by normals <r_A - r_B, rbar>.
    sign = np.where(np.diag(pools.halves_PP) < 0, -1.0, 1.0)
    return ReferenceNoise(
        error_shift_BP=error_shift,
        gradient_shift_BP=error_shift + np.sqrt(_gradient_variance(pools)) * rest,
        normals_BP=sign * rest,
        rewards=rewards,
        degrees=_degrees(terms_PN),
    )


def draw_moments(pools: Pools, noise: ReferenceNoise) -> Moments:
    """Shift the moments that the laws need in every draw; arrays (B, P)."""
    moments, rewards = pool_moments(pools), noise.rewards
    # V stays in the range of the rewards, where laws are defined.
    lowest = pools.reference_rewards_PN.min(-1)
    highest = pools.reference_rewards_PN.max(-1)
    return replace(
        moments,
        gradient2=rewards.product * (moments.gradient2 + noise.gradient_shift_BP),
        value=np.clip(moments.value + rewards.value, lowest, highest),
        variance=np.maximum(moments.variance + rewards.variance, 0),
        given_baseline=moments.best_baseline,
    )


def _of_blocks(pools: Pools) -> Floats:
    """The mean over blocks of each block's U-statistic, (P,); NaN where products are."""
    size = pools.largest_group
    rewards_QG, logits_QG = (
        pools.in_blocks(one_PN).reshape(-1, size)
        for one_PN in (pools.rewards_PN, pools.logit_norms2_PN)
    )
    alike_QG = (rewards_QG[..., None] == rewards_QG[:, None]).sum(-1)
    gram_QGG = pools.gram_PKGG.reshape(-1, size, size)
    stack = Stack(rewards_QG, rewards_QG, alike_QG, alike_QG, gram_QGG, logits_QG)
    terms = gradient_terms(stack)
    return np.asarray(terms.sum((-2, -1)).reshape(pools.prompts, pools.blocks).mean(-1))


def replicates_with_reference(pools: Pools) -> Floats:
    """<g_N, rbar> of each prompt, (P,), unbiased for ||g||^2."""
    centred_PN = pools.rewards_PN - pools.rewards_PN.mean(-1, keepdims=True)
    count = pools.rewards_PN.shape[-1]
    return np.asarray((centred_PN * pools.products_PN).sum(-1) / (count - 1))


def _parts(pools: Pools) -> tuple[Floats, Floats]:
    """Estimates of ||g||^2, (3, P), and the pairs that each is a mean over."""
    half, count = pools.reference_half, pools.rewards_PN.shape[-1]
    size, zeros_P = pools.largest_group, np.zeros(pools.prompts)
    blocks_P = _of_blocks(pools) if size >= LEAST_COMPLETIONS else zeros_P * np.nan
    known_P = np.isfinite(blocks_P)
    with_reference_P = replicates_with_reference(pools)
    estimates = [pools.reference_product_P, with_reference_P, np.nan_to_num(blocks_P)]
    pairs_P = known_P * pools.blocks * size * (size - 1) / 2
    pairs = [zeros_P + half**2, zeros_P + 2 * half * count, pairs_P]
    return np.stack(estimates), np.stack(pairs)


def gradient2_of_all(pools: Pools) -> Floats:
    """||g||^2 of each prompt, (P,), unbiased, by all products that are known."""
    estimates_3P, pairs_3P = _parts(pools)
    return np.asarray((pairs_3P * estimates_3P).sum(0) / pairs_3P.sum(0))


def noise_of_pairs(pools: Pools) -> Floats:
    """The part of the standard error that stays where g is zero, (P,)."""
    return np.sqrt(covariance_square_trace(pools) / _parts(pools)[1].sum(0))


def noise_of_all(pools: Pools) -> Floats:
    """Standard error of each prompt's ||g||^2 from the noise of completions, (P,)."""
    completions = 2 * pools.reference_half + pools.rewards_PN.shape[-1]
    first_order_P = 4 * product_spread(pools) / completions
    return np.sqrt(noise_of_pairs(pools) ** 2 + first_order_P)
