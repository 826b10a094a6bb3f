"""Reference noise: what the finite reference does to every number of a run.

For an unbiased estimator E[error | reference] = MSE + <r_A - g, r_B - g>, whose variance is
tr(Sigma^2) / n^2 with n completions a half. tr(Sigma^2) is the mean of (eps_i eps_j K_ij)^2
over i != j, slightly conservative. One normal shift a prompt is common to all curves, so
that it cancels in differences.

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

import numpy as np

from mse_lab.laws import Moments, pool_moments
from mse_lab.pools import Floats, Pools


@dataclass(frozen=True)
class ReferenceNoise:
    """Draws of the reference's noise, which all numbers of a run share.

    Attributes:
        error_shift_BP: Shift of a prompt's squared errors.
        gradient_shift_BP: Shift of a prompt's <r_A, r_B>.
        value_shift_BP: Shift of a prompt's V.
        variance_shift_BP: Shift of a prompt's Var(Z).
        normals_BP: The standard normals behind the gradient's shift, by which rbar(x)
            varies along r_A(x) - r_B(x).
        degrees: Degrees of freedom with which the size of the errors' shift is known.
    """

    error_shift_BP: Floats
    gradient_shift_BP: Floats
    value_shift_BP: Floats
    variance_shift_BP: Floats
    normals_BP: Floats
    degrees: float


def _square_products(pools: Pools) -> Floats:
    """Terms (P, N), one a completion, whose mean estimates tr(Sigma^2) of eps W.

    The mean over j != i of (eps_i eps_j K_ij)^2. Where products between completions are not
    known, and in blocks of one, eps_i^2 ||W_i||^2 times its mean: the upper bound
    (E eps^2 ||W||^2)^2, by Cauchy-Schwarz too large by the number of directions that share
    the noise.
    """
    residuals_PN = pools.rewards_PN - pools.value_P[:, None]
    own_PN = residuals_PN**2 * pools.norms2_PN
    bound_PN = own_PN * own_PN.mean(-1, keepdims=True)
    size = pools.largest_group
    if size == 1:
        return bound_PN
    residuals = pools.in_blocks(residuals_PN)
    terms = (residuals[..., :, None] * residuals[..., None, :] * pools.gram_PKGG) ** 2
    pairs = terms.sum(-1) - np.diagonal(terms, axis1=-2, axis2=-1)
    known = pools.has_cross_products_P[:, None]
    return np.where(known, pairs.reshape(own_PN.shape) / (size - 1), bound_PN)


def covariance_square_trace(pools: Pools) -> Floats:
    """Estimate tr(Sigma^2) of the oracle's score-weighted residuals eps W, (P,)."""
    return np.asarray(_square_products(pools).mean(-1))


def _degrees(terms_PN: Floats) -> float:
    """Degrees of freedom of sum_x tr(Sigma_x^2): each is a mean over pairs of completions.

    To first order such a mean varies four times as much as that of its terms.
    """
    uncertainty = 4 * terms_PN.var(-1, ddof=1).sum() / terms_PN.shape[-1]
    total = float(terms_PN.mean(-1).sum())
    return float(2 * total**2 / uncertainty) if uncertainty > 0 else float("inf")


def _gradient_variance(pools: Pools) -> Floats:
    """Variance of <r_A, r_B> to first order in the reference's noise, (P,)."""
    residuals = pools.rewards_PN - pools.value_P[:, None]
    spread = (residuals * pools.products_PN).var(-1, ddof=1)
    return np.asarray(2 * spread / pools.reference_half)


def gradient_noise(pools: Pools) -> Floats:
    """Standard error of each prompt's <r_A, r_B> by the reference's noise, (P,)."""
    both = covariance_square_trace(pools) / pools.reference_half**2
    return np.sqrt(both + _gradient_variance(pools))


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


def draw_reference_noise(
    pools: Pools, draws: int, rng: np.random.Generator
) -> ReferenceNoise:
    """Draw the reference's noise.

    Args:
        pools: The pools.
        draws: B.
        rng: Source of randomness.
    """
    shape = (draws, pools.prompts)
    terms_PN = _square_products(pools)
    error_scale = np.sqrt(terms_PN.mean(-1)) / pools.reference_half
    error_shift = error_scale * rng.standard_normal(shape)
    normals = rng.standard_normal(shape)
    # rbar varies by normals (r_A - r_B)/2, so ||g||^2 by normals <r_A - r_B, rbar>.
    sign = np.where(np.diag(pools.halves_PP) < 0, -1.0, 1.0)
    first_order = sign * np.sqrt(_gradient_variance(pools)) * normals
    value_shift, variance_shift = _draw_reward_shifts(pools, shape, rng)
    return ReferenceNoise(
        error_shift_BP=error_shift,
        gradient_shift_BP=error_shift + first_order,
        value_shift_BP=value_shift,
        variance_shift_BP=variance_shift,
        normals_BP=normals,
        degrees=_degrees(terms_PN),
    )


def draw_moments(pools: Pools, noise: ReferenceNoise) -> Moments:
    """Shift the moments that the laws need in every draw; arrays (B, P)."""
    moments = pool_moments(pools)
    # V stays in the range of the rewards, where laws are defined.
    lowest = pools.reference_rewards_PN.min(-1)
    highest = pools.reference_rewards_PN.max(-1)
    return replace(
        moments,
        gradient2=moments.gradient2 + noise.gradient_shift_BP,
        value=np.clip(moments.value + noise.value_shift_BP, lowest, highest),
        variance=np.maximum(moments.variance + noise.variance_shift_BP, 0),
        # The draw varies about an estimate that varies itself: V^2 is lifted twice.
        value_variance=2 * moments.value_variance,
        given_baseline=moments.best_baseline,
    )
