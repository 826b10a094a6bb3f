"""Curves: every estimator at every group size, measured and by its law, with intervals.

The aggregate is the mean over P fixed prompts, each with a group of its own. Its measured
MSE comes from the replicates, its law from the pool's moments; both know which completions
each of their parts comes from, so that their difference can be tested. Where products
between completions are not known, there are no replicates and the law stands alone.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.estimators import Estimator
from mse_lab.mse.binary_laws import BinaryLaw, Law, find_law, is_binary
from mse_lab.mse.decomposition import Between, Decomposition, aggregate
from mse_lab.mse.intervals import Estimate, Statistic
from mse_lab.mse.moment_laws import Moments, completion_moments, pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.reference_noise import ReferenceNoise, draw_moments
from mse_lab.mse.replicates import Key

# Probability that any correct curve of a run is warned of.
FAMILY_WISE = 1e-4

LARGEST_LAW = 1024

# With fewer effective degrees of freedom a run is warned of: on simulated pools the 95%
# intervals of heavy-tailed prompts covered 88 to 90% there (tests/benchmarks/coverage.py).
FEW_DEGREES = 5

# Figures that are positive by nature.
POSITIVE = ("mse", "variance", "scale_free_mse")


@dataclass(frozen=True)
class Curve:
    """A curve's point: the aggregate's figures, and what they are made of.

    Attributes:
        point: The estimates.
        noise: The same in every draw of the reference's noise, arrays (B,).
        run: Names the run, which other runs are independent of.
        errors_PR: Gives the error of each group, whose means over groups and prompts make
            the MSE, up to a constant; made when asked for, since there are many curves.
        reference_degrees: Degrees of freedom of the reference's noise.
    """

    point: Decomposition
    noise: Decomposition
    run: str
    errors_PR: Callable[[], Floats]
    reference_degrees: float

    def statistic(self, part: str = "mse") -> Statistic:
        """Give a part of the decomposition with what it is made of."""
        value = float(getattr(self.point, part))
        growth = {
            "mse": 1.0,
            "variance": 1.0,
            "scale_free_mse": float(self.point.scale_free_growth),
        }.get(part, 0.0)
        shift_B = np.broadcast_to(getattr(self.noise, part), np.shape(self.noise.mse))
        groups = {}
        if growth:
            errors_PR = self.errors_PR()
            groups[self.run] = growth / len(errors_PR) ** 2 * errors_PR
        shifts = {self.run: shift_B - value}
        return Statistic(value, groups, shifts, self.reference_degrees)

    def interval(self, part: str, level: float) -> Estimate:
        """Give a part of the decomposition its interval."""
        return self.statistic(part).interval(level, positive=part in POSITIVE)


def _without_bias(estimate: Floats, draws: Floats) -> Floats:
    """Take off what noise adds on average to a function that is not linear in it.

    The draws about an estimate are on average off from it as it is from the truth. So laws
    that are no polynomial in V need it: with a reference of 64 they were 3 to 6% too high.
    """
    return np.asarray(2 * estimate - draws.mean(0))


def _drawn_between(between: Between, noise: ReferenceNoise) -> Between:
    return replace(between, noise_BP=noise.normals_BP, scale_BP=noise.scale_BP)


def _mse_of_prompts(law: Law, moments: Moments) -> Floats:
    """E||g_hat - g||^2 of each prompt, (..., P)."""
    return law.second - (2 * law.slope - 1) * moments.gradient2


@dataclass(frozen=True)
class Curves:
    """What the curves of one run share.

    Attributes:
        pools: The pools.
        noise: Draws of the reference's noise.
        run: Names the run, which other runs are independent of.
    """

    pools: Pools
    noise: ReferenceNoise
    run: str = ""

    @cached_property
    def moments(self) -> Moments:
        """The prompts' moments, (P,)."""
        return pool_moments(self.pools)

    @cached_property
    def drawn_moments(self) -> Moments:
        """The prompts' moments in every draw of the reference's noise, (B, P)."""
        return draw_moments(self.pools, self.noise)

    @cached_property
    def completion_moments(self) -> Moments:
        """Every completion's part in the moments, (N, P)."""
        return completion_moments(self.pools)

    @cached_property
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1."""
        pools = self.pools
        return is_binary(pools.rewards_PN) and is_binary(pools.reference_rewards_PN)

    def find_law(self, estimator: Estimator, size: int) -> Callable[[Moments], Law] | None:
        """Find the estimator's exact law, if it has one for these rewards."""
        return find_law(estimator, size, binary=self.binary)

    @cached_property
    def between(self) -> Between:
        """Products between prompts."""
        return Between(self.pools.between_PP, self.pools.halves_PP)

    @cached_property
    def drawn_between(self) -> Between:
        """Products between prompts in every draw of the reference's noise."""
        return _drawn_between(self.between, self.noise)

    def _law_of(
        self, law: Callable[[Moments], Law], moments: Moments, between: Between
    ) -> Decomposition:
        found = law(moments)
        mse = _mse_of_prompts(found, moments)
        return aggregate(mse, found.slope, moments.gradient2, between)

    @cached_property
    def _by_rewards(self) -> tuple[Moments, Between]:
        """Moments and products in every draw of what the reference's rewards alone do."""
        noise = self.noise.of_rewards()
        return draw_moments(self.pools, noise), _drawn_between(self.between, noise)

    def by_law(self, estimator: Estimator, size: int) -> Curve | None:
        """Evaluate the aggregate's law; None where the estimator has none."""
        law = self.find_law(estimator, size)
        if law is None:
            return None
        point = self._law_of(law, self.moments, self.between)
        noise = self._law_of(law, self.drawn_moments, self.drawn_between)
        if isinstance(law, BinaryLaw):
            by_rewards = self._law_of(law, *self._by_rewards)
            point = point._replace(mse=_without_bias(point.mse, by_rewards.mse))

        def errors_PN() -> Floats:
            return law(self.completion_moments).second.T

        return Curve(point, noise, self.run, errors_PN, self.noise.degrees)

    def prompts_by_law(self, estimator: Estimator, size: int) -> Floats:
        """Evaluate the law of each prompt's MSE, (P,); NaN where the estimator has none."""
        law = self.find_law(estimator, size)
        if law is None:
            return np.full(self.pools.prompts, np.nan)
        mse_P = _mse_of_prompts(law(self.moments), self.moments)
        if not isinstance(law, BinaryLaw):
            return mse_P
        moments, _ = self._by_rewards
        return _without_bias(mse_P, _mse_of_prompts(law(moments), moments))

    def _value_shift(self, estimator: Estimator, size: int) -> Floats | float:
        """What the noise of V does to the MSE of an estimator that knows V, (B, P).

        To first order 2 (V S - B) / G times the shift of V for the oracle: nothing only
        where V is the best baseline. Left out where the estimator has no law.
        """
        law = self.find_law(estimator, size)
        if law is None:
            return 0.0
        fixed = replace(self.drawn_moments, value=self.moments.value)
        return law(self.drawn_moments).second - law(fixed).second

    def measured(self, estimator: Estimator, size: int, errors_PR: Floats) -> Curve | None:
        """Aggregate the replicates' errors.

        Returns:
            The curve's point; None where there are no replicates, or the aggregate's bias
            has no cheap form: a biased estimator whose weights depend on lengths, norms or
            other prompts.
        """
        if not errors_PR.size:
            return None
        if estimator.unbiased:
            slope = drawn_slope = np.ones(self.pools.prompts)
        elif (law := self.find_law(estimator, size)) is not None:
            slope, drawn_slope = law(self.moments).slope, law(self.drawn_moments).slope
        else:
            return None
        means_P = errors_PR.mean(-1)
        draws = self.noise
        gradient_shift_BP = self.drawn_moments.gradient2 - self.moments.gradient2
        shift_BP = (
            drawn_slope * draws.error_shift_BP + (1 - drawn_slope) * gradient_shift_BP
        )
        if estimator.knows_value:
            shift_BP = shift_BP + self._value_shift(estimator, size)
        point = aggregate(means_P, slope, self.moments.gradient2, self.between)
        noise = aggregate(
            means_P + shift_BP,
            drawn_slope,
            self.drawn_moments.gradient2,
            self.drawn_between,
        )
        return Curve(point, noise, self.run, lambda: errors_PR, draws.degrees)


def measure_curves(
    curves: Curves, estimators: Sequence[Estimator], errors: Mapping[Key, Floats]
) -> dict[Key, tuple[Curve | None, Curve | None]]:
    """Give every point of every curve: measured, and by law."""
    found = {}
    for estimator in estimators:
        for key in (key for key in errors if key.estimator == estimator.name):
            size = key.group_size
            measured = curves.measured(estimator, size, errors[key])
            found[key] = (measured, curves.by_law(estimator, size))
    return found


def law_sizes(estimator: Estimator, group_sizes: Sequence[int]) -> list[int]:
    """List a probe's group sizes and the powers of two up to 1024."""
    powers = {2**k for k in range(1, LARGEST_LAW.bit_length())}
    return sorted(
        size for size in powers | set(group_sizes) if size >= estimator.smallest_group
    )


def law_curves(
    curves: Curves, estimators: Sequence[Estimator], group_sizes: Sequence[int]
) -> Iterator[tuple[Key, Curve]]:
    """Evaluate the laws at the probe's group sizes and at every power of two to 1024."""
    for estimator in estimators:
        for size in law_sizes(estimator, group_sizes):
            curve = curves.by_law(estimator, size)
            if curve is not None:
                yield Key(estimator.name, size), curve


def warn_of_norms_only(
    pools: Pools, found: Mapping[Key, tuple[Curve | None, Curve | None]]
) -> list[str]:
    """Say that there are no replicates, why, what is left, and what to change."""
    unknown = int((~pools.has_cross_products_P).sum())
    if not unknown:
        return []
    with_law = {key.estimator for key, (_, law) in found.items() if law is not None}
    names = dict.fromkeys(key.estimator for key in found if key.estimator not in with_law)
    nothing = f"; there is no law for {', '.join(names)}" if names else ""
    return [
        f"norms only: on {unknown} of {pools.prompts} prompts a block of "
        f"{pools.largest_group} completions did not fit in memory, so products between "
        "completions are not known and there are no replicates; mse is empty; law is exact "
        "at the pool's moments, confirmed by no replicate, and its intervals take an upper "
        f"bound for the noise of ||g||^2{nothing}; for replicates raise model.memory, "
        "count fewer parameters, or take a smaller largest group size"
    ]


def disagreement(measured: Curve, law: Curve) -> float:
    """Test whether replicates and law agree, paired; the two-sided p-value."""
    return measured.statistic().exceeding(law.statistic()).p_refuted()


def warn_of_disagreement(
    found: Mapping[Key, tuple[Curve | None, Curve | None]],
) -> list[str]:
    """Name the estimators whose replicates and law disagree, family-wise at 1e-4."""
    both = {key: pair for key, pair in found.items() if None not in pair}
    warnings = []
    for key, (measured, law) in both.items():
        if measured is None or law is None:
            continue
        p_value = disagreement(measured, law)
        if p_value < FAMILY_WISE / len(both):
            warnings.append(
                f"{key.estimator} at G = {key.group_size}: replicates give "
                f"{float(measured.point.mse):.4g}, its law {float(law.point.mse):.4g} "
                f"(p = {p_value:.1g}); one of them is wrong"
            )
    return warnings


def warn_of_few_degrees(
    pools: Pools, found: Mapping[Key, tuple[Curve | None, Curve | None]]
) -> list[str]:
    """Say where a few prompts or completions carry an MSE, and what pool would do."""
    degrees = {
        key: measured.statistic().degrees
        for key, (measured, _) in found.items()
        if measured is not None
    }
    if not degrees or min(degrees.values()) >= FEW_DEGREES:
        return []
    key = min(degrees, key=degrees.__getitem__)
    replicates = pools.rewards_PN.shape[1] // key.group_size
    # Degrees plus two grow as replicates plus one: exact for one prompt's normal errors.
    wanted = (FEW_DEGREES + 2) / (degrees[key] + 2) * (replicates + 1) - 1
    blocks = math.ceil(wanted * key.group_size / pools.largest_group)
    return [
        f"too few effective degrees of freedom ({degrees[key]:.1f}, {key.estimator} at "
        f"G = {key.group_size}): a few prompts, or a few completions, carry the MSE, and "
        "intervals may cover less than they say; more prompts like these would do, or "
        f"pool.replicate={blocks * pools.largest_group}"
    ]
