"""Curves: every estimator at every group size, measured and by its law, with intervals.

The aggregate is the mean over P fixed prompts, each with a group of its own. Its measured
MSE comes from the replicates' errors, its law from the pool's moments; both know which
completions each of their parts comes from, so that their difference can be tested.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.estimators import Estimator
from mse_lab.mse.bootstrap import Bootstrap
from mse_lab.mse.decomposition import Between, Decomposition, aggregate, decompose
from mse_lab.mse.intervals import Estimate, Statistic
from mse_lab.mse.laws import BinaryLaw, Law, find_law
from mse_lab.mse.moments import Moments, completion_moments, pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.reference_noise import ReferenceNoise, draw_moments
from mse_lab.mse.replicates import Key, measure_mean

LARGEST_LAW = 1024

POSITIVE = ("mse", "variance", "scale_free_mse")  # Figures that are positive by nature.


@dataclass(frozen=True)
class Curve:
    """A curve's point: the aggregate's figures, and what they are made of."""

    point: Decomposition  # The estimates.
    noise: Decomposition  # The same in every draw of the reference's noise, arrays (B,).
    source: "Curves"  # What the curves of its run share.
    # Makes the error of each group, whose means over groups and prompts are the MSE, up to
    # a constant.
    errors_PR: Callable[[], Floats]

    def statistic(self, part: str = "mse") -> Statistic:
        """Give a part of the decomposition with what it is made of."""
        value = float(getattr(self.point, part))
        scale_free = float(self.point.scale_free_growth)
        growths = {"mse": 1.0, "variance": 1.0, "scale_free_mse": scale_free}
        shift_B = np.broadcast_to(getattr(self.noise, part), np.shape(self.noise.mse))
        groups = {}
        if growth := growths.get(part, 0.0):
            errors_PR = self.errors_PR()
            groups[self.source.run] = growth / len(errors_PR) ** 2 * errors_PR
        shifts, degrees = {self.source.run: shift_B - value}, self.source.noise.degrees
        return Statistic(value, groups, shifts, degrees, self.source.bootstrap)

    def interval(self, part: str, level: float) -> Estimate:
        """Give a part of the decomposition its interval."""
        return self.statistic(part).interval(level, positive=part in POSITIVE)


class Point(NamedTuple):
    """One estimator at one group size, by its replicates and by its exact law.

    Measured it is None where there are no replicates, or the aggregate's bias is not known:
    of a biased estimator whose weights depend on lengths, norms or other prompts, or whose
    slope is no polynomial that a reference of so few completions gives without bias.
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
    """Take off what noise adds on average to a function that is not linear in it.

    Draws about an estimate are on average off from it as it is from the truth. To first
    order, for laws at group sizes beyond what the reference gives without bias.
    """
    return np.asarray(2 * estimate - draws.mean(0))


def _mse_of_prompts(law: Law, moments: Moments) -> Floats:
    """E||g_hat - g||^2 of each prompt, (..., P)."""
    return law.second - (2 * law.own_slope - 1) * moments.gradient2


@dataclass(frozen=True)
class _Inputs:
    """What laws are evaluated at: estimates, or draws of the reference's noise."""

    moments: Moments
    between: Between

    def aggregate(self, law: Callable[[Moments], Law]) -> Decomposition:
        evaluated = law(self.moments)
        mse = _mse_of_prompts(evaluated, self.moments)
        gradient2 = self.moments.gradient2
        return aggregate(mse, evaluated.slope, gradient2, self.between, evaluated.own_slope)


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
        """The same in every draw, (B, P)."""
        between, scale_BP = self._estimate.between, noise.rewards.mean
        between = replace(between, noise_BP=noise.normals_BP, scale_BP=scale_BP)
        return _Inputs(draw_moments(self.pools, noise), between)

    @cached_property
    def _drawn(self) -> _Inputs:
        return self._drawn_from(self.noise)

    @cached_property
    def _by_rewards(self) -> _Inputs:
        """In draws of what the reference's rewards alone do."""
        return self._drawn_from(self.noise.of_rewards())

    @cached_property
    def _completion_moments(self) -> Moments:
        return completion_moments(self.pools)

    def find_law(self, estimator: Estimator, size: int) -> Callable[[Moments], Law] | None:
        """Find the estimator's exact law, if it has one for these rewards."""
        return find_law(estimator, size, binary=self.binary)

    def knows_mean(self, estimator: Estimator, size: int) -> bool:
        """Whether the reference is large enough for the bias of its law, if it has one."""
        law = self.find_law(estimator, size)
        return not isinstance(law, BinaryLaw) or law.knows_mean(self.moments)

    def by_law(self, estimator: Estimator, size: int) -> Curve | None:
        """Evaluate the aggregate's law; None where the estimator has none."""
        law = self.find_law(estimator, size)
        if law is None:
            return None
        point, noise = (inputs.aggregate(law) for inputs in (self._estimate, self._drawn))
        if not self.knows_mean(estimator, size):
            by_rewards = self._by_rewards.aggregate(law)
            mse = _without_bias(point.mse, by_rewards.mse)
            # Nothing else is known well enough.
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
        """What the noise of V does to the MSE of an estimator that knows V, (B, P).

        To first order 2 (V S - B) / G times V's shift for the oracle; 0 without a law.
        """
        law = self.find_law(estimator, size) if estimator.knows_value else None
        if law is None:
            return 0.0
        drawn = self._drawn.moments
        fixed = replace(drawn, value=self.moments.value)
        return law(drawn).second - law(fixed).second

    def slopes(self, estimator: Estimator, size: int) -> Callable[[Moments], Law] | None:
        """Find the law whose slopes the prompts have; None where they are not known."""
        if estimator.unbiased:
            ones = np.ones(self.pools.prompts)
            return lambda moments: Law(np.nan * ones, ones, ones)
        law = self.find_law(estimator, size)
        return law if self.knows_mean(estimator, size) else None

    def measured(self, estimator: Estimator, size: int, errors_PR: Floats) -> Curve | None:
        """Aggregate the replicates' errors; None as in `Point`."""
        slopes = self.slopes(estimator, size)
        if slopes is None or not errors_PR.size:
            return None
        drawn, estimate = self._drawn, self._estimate
        law, drawn_law = slopes(estimate.moments), slopes(drawn.moments)
        means_P, gradient2 = errors_PR.mean(-1), estimate.moments.gradient2
        gradient_shift_BP = drawn.moments.gradient2 - gradient2
        own_BP = drawn_law.own_slope
        shift_BP = own_BP * self.noise.error_shift_BP + (1 - own_BP) * gradient_shift_BP
        shift_BP = shift_BP + self._value_shift(estimator, size)
        point, noise = (
            aggregate(mse_P, at.slope, inputs.moments.gradient2, inputs.between, own_P)
            for mse_P, at, inputs, own_P in (
                (means_P, law, estimate, law.own_slope),
                (means_P + shift_BP, drawn_law, drawn, own_BP),
            )
        )
        return Curve(point, noise, self, lambda: errors_PR)

    def of_prompts(
        self, estimator: Estimator, size: int, errors_PR: Floats
    ) -> Decomposition:
        """Take a prompt's own mean square apart, (P,); by slopes where these are known."""
        norm2 = self.moments.gradient2
        if slopes := self.slopes(estimator, size):
            slope = slopes(self.moments).own_slope
            mean_norm2, inner = slope**2 * norm2, slope * norm2
        else:
            mean_norm2, inner = measure_mean(self.pools, estimator, size)
        # Without replicates there is nothing to average.
        mse = errors_PR.mean(-1) if errors_PR.size else np.full_like(norm2, np.nan)
        return decompose(mse, mean_norm2, inner, norm2)


def measure_curves(
    curves: Curves, estimators: Sequence[Estimator], errors: Mapping[Key, Floats]
) -> dict[Key, Point]:
    """Give every point of every curve."""
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
    """List a probe's group sizes and the powers of two up to 1024."""
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
