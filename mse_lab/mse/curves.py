"""Curves: every estimator at every group size, measured and by its law, with intervals.

The aggregate is the mean over P fixed prompts, each with its own group. Its measured MSE
comes from the replicates' errors, its law from the pool's moments. Both are kept with the
completions that each of their parts comes from, so that their difference can be tested.

A rescaled estimator has another MSE and the same direction, so a raw MSE does not compare
estimators of different scale. With u = E g_hat,

    bias^2 = ||u - g||^2,  variance = E||g_hat||^2 - ||u||^2,  slope = <u, g> / ||g||^2,
    cosine = <u, g> / (||u|| ||g||),
    scale-free MSE = min_a E||a g_hat - g||^2 = ||g||^2 - <u, g>^2 / E||g_hat||^2.

Where u(x) = slope(x) g(x) for every prompt, which holds for every reward-only estimator of
binary rewards, the aggregate's bias is the vector (1/P) sum_x (slope(x) - 1) g(x): the
prompts' biases add up as vectors, by the products Gamma between prompts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.estimators import Estimator
from mse_lab.mse.intervals import Bootstrap, Estimate, Statistic
from mse_lab.mse.laws import WRONG_RIGHT, BinaryLaw, Law, find_law
from mse_lab.mse.moments import Moments, completion_moments, pool_moments
from mse_lab.mse.pools import Pools, without_diagonal
from mse_lab.mse.reference_noise import ReferenceNoise, draw_moments
from mse_lab.mse.replicates import Key, price_of_baseline


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


LARGEST_LAW = 1024


@dataclass(frozen=True)
class Curve:
    """A curve's point: the aggregate's figures, and how they vary."""

    point: Decomposition  # The estimates.
    noise: Decomposition  # The same in every draw of the reference's noise, arrays (B,).
    source: "Curves"  # What the curves of its run share.
    # The error of each group; the MSE is 1/P of their mean, plus a constant.
    errors_PR: Callable[[], Floats]

    def statistic(self, part: str = "mse") -> Statistic:
        """Estimate `mse` or `scale_free_mse`, with the contribution of every group."""
        value, errors_PR = float(getattr(self.point, part)), self.errors_PR()
        growth = 1.0 if part == "mse" else float(self.point.scale_free_growth)
        groups = {self.source.run: growth / len(errors_PR) ** 2 * errors_PR}
        shift_B = np.broadcast_to(getattr(self.noise, part), np.shape(self.noise.mse))
        shifts, degrees = {self.source.run: shift_B - value}, self.source.noise.degrees
        return Statistic(value, groups, shifts, degrees, self.source.bootstrap)


class Point(NamedTuple):
    """One estimator at one group size, by its replicates and by its exact law.

    `measured` is None where there are no replicates or the aggregate's bias is unknown. The
    latter is so for a biased estimator whose weights depend on lengths, norms or other
    prompts, or whose slope is a polynomial of too high a degree for the completions of the
    reference. `law` is None where the estimator has none.
    """

    measured: Curve | None
    law: Curve | None


Points = Mapping[Key, Point]


def paired_ratio(
    curve: Curve | None, base: Curve | None, level: float, part: str = "mse"
) -> Estimate | None:
    """Estimate the ratio of a part, such as the MSE, to another curve's of the same groups.

    None where either is missing or the base is not measurably positive.
    """
    if curve is None or base is None:
        return None
    ratio = curve.statistic(part).ratio_to(base.statistic(part), level)
    return ratio if np.isfinite(ratio.value) else None


def disagreement(measured: Curve, law: Curve) -> float:
    """Test whether replicates and law agree, paired; the two-sided p-value."""
    return measured.statistic().exceeding(law.statistic()).p_refuted()


def _without_bias(estimate: Floats, draws: Floats) -> Floats:
    """Subtract the bias that noise causes in a function that is not linear in it.

    On average the draws exceed the estimate by as much as the estimate exceeds the truth,
    to first order. This is for laws at group sizes for which the reference has too few
    completions.
    """
    return np.asarray(2 * estimate - draws.mean(0))


def _mse_of_prompts(law: Law, moments: Moments) -> Floats:
    """E||g_hat - g||^2 of each prompt, (..., P)."""
    return law.second - (2 * law.slope_alone - 1) * moments.gradient2


@dataclass(frozen=True)
class Inputs:
    """Arguments of laws: estimates, or draws of the reference's noise."""

    moments: Moments
    between: Between

    def aggregate(
        self, mse_P: Floats, slope_P: Floats, slope_alone_P: Floats
    ) -> Decomposition:
        """Decompose the aggregate's MSE, for u(x) = slope(x) g(x).

        Its MSE is

            (1/P^2) [sum_x MSE(x) + sum_{x != x'} (1-slope(x)) (1-slope(x')) Gamma_xx']:

        the errors of different prompts are independent, but their means are not zero.

        Args:
            mse_P: E||g_hat(x) - g(x)||^2 of each prompt, (..., P).
            slope_P: slope(x), (..., P), unbiased times rbar.
            slope_alone_P: slope(x), unbiased times <r_A, r_B>.
        """
        between, gradient2_P = self.between, self.moments.gradient2
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

    def by_law(self, law: Callable[[Moments], Law]) -> Decomposition:
        """Decompose the MSE that a law gives."""
        at = law(self.moments)
        return self.aggregate(_mse_of_prompts(at, self.moments), at.slope, at.slope_alone)


@dataclass(frozen=True)
class Curves:
    """What the curves of one run share."""

    pools: Pools  # Its pools.
    noise: ReferenceNoise  # Draws of the reference's noise.
    run: str = ""  # Its name; runs of other names are independent of it.
    # What intervals are drawn by; None for the closed form.
    bootstrap: Bootstrap | None = None

    @cached_property
    def moments(self) -> Moments:
        """The prompts' moments, (P,)."""
        return pool_moments(self.pools)

    @cached_property
    def _estimate(self) -> Inputs:
        return Inputs(self.moments, Between(self.pools.between_PP, self.pools.halves_PP))

    def _drawn_from(self, noise: ReferenceNoise) -> Inputs:
        between, scale_BP = self._estimate.between, noise.rewards.mean
        between = replace(between, noise_BP=noise.normals_BP, scale_BP=scale_BP)
        return Inputs(draw_moments(self.pools, noise), between)

    @cached_property
    def _drawn(self) -> Inputs:
        return self._drawn_from(self.noise)

    @cached_property
    def _by_rewards(self) -> Inputs:
        """The arguments in draws of the noise of the reference's rewards alone."""
        return self._drawn_from(self.noise.of_rewards())

    @cached_property
    def _completion_moments(self) -> Moments:
        return completion_moments(self.pools)

    def find_law(self, estimator: Estimator, size: int) -> Callable[[Moments], Law] | None:
        """Find the estimator's exact law, if it has one for these rewards."""
        return find_law(estimator, size, WRONG_RIGHT if self.pools.binary else None)

    def knows_mean(self, estimator: Estimator, size: int) -> bool:
        """Whether the reference is large enough for the law's mean, if it has a law."""
        law = self.find_law(estimator, size)
        return not isinstance(law, BinaryLaw) or law.knows_mean(self.moments)

    def by_law(self, estimator: Estimator, size: int) -> Curve | None:
        """Evaluate the aggregate's law; None where the estimator has none."""
        law = self.find_law(estimator, size)
        if law is None:
            return None
        point, noise = (inputs.by_law(law) for inputs in (self._estimate, self._drawn))
        if not self.knows_mean(estimator, size):
            mse = _without_bias(point.mse, self._by_rewards.by_law(law).mse)
            # The other parts would be too inexact.
            point = Decomposition(mse, *[np.full_like(mse, np.nan)] * 6)
        return Curve(point, noise, self, lambda: law(self._completion_moments).second.T)

    def prompts_by_law(self, estimator: Estimator, size: int) -> Floats:
        """Evaluate the law of each prompt's MSE, (P,); NaN where the estimator has none."""
        law = self.find_law(estimator, size)
        if law is None:
            return np.full(self.pools.prompts, np.nan)
        mse_P = _mse_of_prompts(law(self.moments), self.moments)
        if self.knows_mean(estimator, size):
            return mse_P
        moments = self._by_rewards.moments
        return _without_bias(mse_P, _mse_of_prompts(law(moments), moments))

    def _value_shift(self, estimator: Estimator, size: int) -> Floats | float:
        """The shift of the MSE by the noise of V, for an estimator that knows V, (B, P).

        For the oracle and a shift d of V it is (2 (V S - B) d + S (d^2 - Var V)) / G, as
        S Var(V) / G is taken off the replicates; 0 without a law.
        """
        law = self.find_law(estimator, size) if estimator.knows_value else None
        if law is None:
            return 0.0
        drawn = self._drawn.moments
        shift_BP = law(drawn).second - law(replace(drawn, value=self.moments.value)).second
        return shift_BP - price_of_baseline(self.pools, estimator, size)

    def slopes(self, estimator: Estimator, size: int) -> Callable[[Moments], Law] | None:
        """Find the law that gives the prompts' slopes; None where they are unknown."""
        if estimator.unbiased:
            ones = np.ones(self.pools.prompts)
            return lambda moments: Law(np.nan * ones, ones, ones)
        return self.find_law(estimator, size) if self.knows_mean(estimator, size) else None

    def measured(self, estimator: Estimator, size: int, errors_PR: Floats) -> Curve | None:
        """Aggregate the replicates' errors; None as in `Point`."""
        slopes = self.slopes(estimator, size)
        if slopes is None or not errors_PR.size:
            return None
        drawn, estimate = self._drawn, self._estimate
        law, drawn_law = slopes(estimate.moments), slopes(drawn.moments)
        means_P, gradient2 = errors_PR.mean(-1), estimate.moments.gradient2
        gradient_shift_BP = drawn.moments.gradient2 - gradient2
        slope_alone_BP = drawn_law.slope_alone
        shift_BP = (
            slope_alone_BP * self.noise.error_shift_BP
            + (1 - slope_alone_BP) * gradient_shift_BP
        )
        shift_BP = shift_BP + self._value_shift(estimator, size)
        point = estimate.aggregate(means_P, law.slope, law.slope_alone)
        noise = drawn.aggregate(means_P + shift_BP, drawn_law.slope, slope_alone_BP)
        return Curve(point, noise, self, lambda: errors_PR)


def measure_curves(
    curves: Curves, estimators: Sequence[Estimator], errors: Mapping[Key, Floats]
) -> dict[Key, Point]:
    """Measure every point of every curve."""
    by_name = {estimator.name: estimator for estimator in estimators}
    return {
        key: Point(
            curves.measured(by_name[key.estimator], key.group_size, errors_PR),
            curves.by_law(by_name[key.estimator], key.group_size),
        )
        for key, errors_PR in errors.items()
    }


def law_sizes(estimator: Estimator, group_sizes: Sequence[int]) -> list[int]:
    """List the group sizes of a probe, and the powers of two up to 1024."""
    sizes = {2**k for k in range(1, LARGEST_LAW.bit_length())} | set(group_sizes)
    return sorted(size for size in sizes if size >= estimator.smallest_group)


def law_curves(
    curves: Curves, estimators: Sequence[Estimator], group_sizes: Sequence[int]
) -> Iterator[tuple[Key, Curve]]:
    """Evaluate the laws at all of `law_sizes`."""
    for estimator in estimators:
        for size in law_sizes(estimator, group_sizes):
            curve = curves.by_law(estimator, size)
            if curve is not None:
                yield Key(estimator.name, size), curve
