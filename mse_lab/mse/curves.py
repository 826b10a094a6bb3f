"""Curves: every estimator at every group size, measured and by its law, with intervals.

The aggregate is the mean over P fixed prompts, each with its own group. Its measured MSE
comes from the replicates' errors, its law from the pool's moments. Both are kept with the
completions that each of their parts comes from, so that their difference can be tested.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.estimators import Estimator
from mse_lab.mse.bootstrap import Bootstrap
from mse_lab.mse.decomposition import Between, Decomposition, aggregate
from mse_lab.mse.intervals import Estimate, Statistic
from mse_lab.mse.laws import BinaryLaw, Law, find_law
from mse_lab.mse.moments import Moments, completion_moments, pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.reference_noise import ReferenceNoise, draw_moments
from mse_lab.mse.replicates import Key, price_of_baseline

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

    def interval(self, part: str, level: float) -> Estimate:
        """Estimate `mse` or `scale_free_mse` with its interval."""
        return self.statistic(part).interval(level, positive=True)


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
class _Inputs:
    """Arguments of laws: estimates, or draws of the reference's noise."""

    moments: Moments
    between: Between

    def aggregate(self, law: Callable[[Moments], Law]) -> Decomposition:
        evaluated = law(self.moments)
        mse = _mse_of_prompts(evaluated, self.moments)
        gradient2 = self.moments.gradient2
        return aggregate(
            mse, evaluated.slope, gradient2, self.between, evaluated.slope_alone
        )


@dataclass(frozen=True)
class Curves:
    """What the curves of one run share."""

    pools: Pools  # Its pools.
    noise: ReferenceNoise  # Draws of the reference's noise.
    run: str = ""  # Its name; runs of other names are independent of it.
    # What intervals are drawn by; None for the closed form.
    bootstrap: Bootstrap | None = None

    @cached_property
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1."""
        return self.pools.binary

    @cached_property
    def moments(self) -> Moments:
        """The prompts' moments, (P,)."""
        return pool_moments(self.pools)

    @cached_property
    def _estimate(self) -> _Inputs:
        return _Inputs(self.moments, Between(self.pools.between_PP, self.pools.halves_PP))

    def _drawn_from(self, noise: ReferenceNoise) -> _Inputs:
        between, scale_BP = self._estimate.between, noise.rewards.mean
        between = replace(between, noise_BP=noise.normals_BP, scale_BP=scale_BP)
        return _Inputs(draw_moments(self.pools, noise), between)

    @cached_property
    def _drawn(self) -> _Inputs:
        return self._drawn_from(self.noise)

    @cached_property
    def _by_rewards(self) -> _Inputs:
        """The arguments in draws of the noise of the reference's rewards alone."""
        return self._drawn_from(self.noise.of_rewards())

    @cached_property
    def _completion_moments(self) -> Moments:
        return completion_moments(self.pools)

    def find_law(self, estimator: Estimator, size: int) -> Callable[[Moments], Law] | None:
        """Find the estimator's exact law, if it has one for these rewards."""
        return find_law(estimator, size, binary=self.binary)

    def knows_mean(self, estimator: Estimator, size: int) -> bool:
        """Whether the reference is large enough for the law's mean, if it has a law."""
        law = self.find_law(estimator, size)
        return not isinstance(law, BinaryLaw) or law.knows_mean(self.moments)

    def by_law(self, estimator: Estimator, size: int) -> Curve | None:
        """Evaluate the aggregate's law; None where the estimator has none."""
        law = self.find_law(estimator, size)
        if law is None:
            return None
        point, noise = (inputs.aggregate(law) for inputs in (self._estimate, self._drawn))
        if not self.knows_mean(estimator, size):
            mse = _without_bias(point.mse, self._by_rewards.aggregate(law).mse)
            # The other parts would be too inexact.
            point = Decomposition(mse, *[np.full_like(mse, np.nan)] * 6)

        def errors_PN() -> Floats:
            return law(self._completion_moments).second.T

        return Curve(point, noise, self, errors_PN)

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
        point, noise = (
            aggregate(
                mse_P, at.slope, inputs.moments.gradient2, inputs.between, slope_alone_P
            )
            for mse_P, at, inputs, slope_alone_P in (
                (means_P, law, estimate, law.slope_alone),
                (means_P + shift_BP, drawn_law, drawn, slope_alone_BP),
            )
        )
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
        if key.estimator in by_name
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
