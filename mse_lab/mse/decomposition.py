"""The decomposition of an MSE: bias^2, variance, slope, cosine and scale-free MSE.

A rescaled estimator has another MSE and the same direction, so a raw MSE does not compare
estimators of different scale. With u = E g_hat,

    bias^2 = ||u - g||^2,  variance = E||g_hat||^2 - ||u||^2,  slope = <u, g> / ||g||^2,
    cosine = <u, g> / (||u|| ||g||),
    scale-free MSE = min_a E||a g_hat - g||^2 = ||g||^2 - <u, g>^2 / E||g_hat||^2.

Where u(x) = slope(x) g(x) for every prompt, which holds for every reward-only estimator of
binary rewards, the aggregate's bias is the vector (1/P) sum_x (slope(x) - 1) g(x): the
prompts' biases add up as vectors, by the products Gamma between prompts.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats, divide


class Decomposition(NamedTuple):
    """The parts of an estimator's MSE; numbers or arrays of one shape.

    `scale_free_growth` is the derivative of the scale-free MSE in the MSE.
    """

    mse: Floats
    bias2: Floats
    variance: Floats
    slope: Floats
    cosine: Floats
    scale_free_mse: Floats
    scale_free_growth: Floats


def _ratio(top: Floats, bottom: Floats) -> Floats:
    return divide(top, bottom, otherwise=np.nan)


def decompose(
    mse: Floats, mean_norm2: Floats, inner: Floats, norm2: Floats
) -> Decomposition:
    """Decompose an MSE by ||u||^2, <u, g> and ||g||^2.

    Slope, cosine and scale-free MSE are NaN where the estimate of ||g||^2 is not positive.
    """
    bias2 = mean_norm2 - 2 * inner + norm2
    second = mse + 2 * inner - norm2
    product = np.maximum(mean_norm2, 0) * np.maximum(norm2, 0)
    return Decomposition(
        mse=mse,
        bias2=bias2,
        variance=mse - bias2,
        slope=_ratio(inner, norm2),
        cosine=_ratio(inner, np.sqrt(product)),
        scale_free_mse=np.where(norm2 > 0, norm2 - _ratio(inner**2, second), np.nan),
        scale_free_growth=_ratio(inner, second) ** 2,
    )


def without_diagonal(matrix_PP: Floats) -> Floats:
    """Keep the products of different prompts alone."""
    return matrix_PP - np.diag(np.diag(matrix_PP))


@dataclass(frozen=True)
class Between:
    """Products between the references of different prompts, with their noise."""

    products_PP: Floats  # Gamma_xx' = <rbar(x), rbar(x')>; its diagonal is not used.
    halves_PP: Floats  # <r_A(x) - r_B(x), rbar(x')>.
    # In each draw rbar(x) moves by this times (r_A(x) - r_B(x)) / 2, and is scaled.
    noise_BP: Floats | None = None
    scale_BP: Floats | float = 1.0

    def form(self, left: Floats, right: Floats) -> Floats:
        """sum_{x != x'} left_x Gamma_xx' right_x', for arrays (..., P)."""
        left, right = left * self.scale_BP, right * self.scale_BP
        value = ((left @ without_diagonal(self.products_PP)) * right).sum(-1)
        if self.noise_BP is not None:
            halves = without_diagonal(self.halves_PP).T
            varied = left * (right @ halves) + right * (left @ halves)
            value = value + (self.noise_BP * varied).sum(-1) / 2
        return np.asarray(value)

    @cached_property
    def whole(self) -> Floats:
        """sum_{x != x'} Gamma_xx', which all estimators share."""
        ones = np.ones(len(self.products_PP))
        return self.form(ones, ones)


def aggregate(
    mse_P: Floats,
    slope_P: Floats,
    gradient2_P: Floats,
    between: Between,
    slope_alone_P: Floats,
) -> Decomposition:
    """Decompose the aggregate's MSE, for u(x) = slope(x) g(x).

    Its MSE is (1/P^2) [sum_x MSE(x) + sum_{x != x'} (1-slope(x)) (1-slope(x')) Gamma_xx']:
    the errors of different prompts are independent, but their means are not zero.

    Args:
        mse_P: E||g_hat(x) - g(x)||^2 of each prompt, (..., P).
        slope_P: slope(x), (..., P), unbiased times rbar.
        gradient2_P: ||g(x)||^2, (..., P).
        between: The products between prompts.
        slope_alone_P: slope(x), unbiased times <r_A, r_B>.
    """
    count = gradient2_P.shape[-1] ** 2
    with_itself = with_one = whole = between.whole
    if not (slope_P == 1).all():
        with_one = between.form(slope_P, np.ones(gradient2_P.shape[-1]))
        with_itself = between.form(slope_P, slope_P)
    cross = whole - 2 * with_one + with_itself
    return decompose(
        mse=np.asarray((mse_P.sum(-1) + cross) / count),
        mean_norm2=((slope_alone_P**2 * gradient2_P).sum(-1) + with_itself) / count,
        inner=((slope_alone_P * gradient2_P).sum(-1) + with_one) / count,
        norm2=(gradient2_P.sum(-1) + whole) / count,
    )
