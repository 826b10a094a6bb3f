"""From a metric's measurement to c1, c2, c3 and the best group size, with intervals.

`metric_forms.py` has the mathematics. Prompts are drawn at random, and intervals come from
leaving them out one at a time (the jackknife), in both of their roles: as directions of
noise and as curvature. Degrees of freedom are at most the number of prompts that carry the
constants.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from mse_lab.arrays import Floats, Ints
from mse_lab.mse.intervals import UNKNOWN, Estimate, Statistic
from mse_lab.mse.metric_forms import Forms, MetricConstants, metric_constants
from mse_lab.mse.prompt_samples import count_carriers, jackknife, raise_to_zero
from mse_lab.mse.regret import SIZES, choose_size

# Per cent of simulated samples that gave the felt G* both ends (mse_lab/README.md).
BOTH_ENDS = {12: (0, 20), 24: (0, 68), 40: (4, 89), 64: (11, 97)}


def warn_of_few(prompts: int) -> list[str]:
    """Say beforehand how seldom a sample of prompts is enough for the felt G*.

    >>> warn_of_few(30)
    ['metric: 24 prompts told the felt G* in 0 to 68% of simulations, 64 in 11 to 97%']
    """
    sizes = [size for size in BOTH_ENDS if size <= max(prompts, min(BOTH_ENDS))]
    (least, most), (low, high) = BOTH_ENDS[sizes[-1]], BOTH_ENDS[max(BOTH_ENDS)]
    if prompts >= max(BOTH_ENDS):
        return []
    return [
        f"metric: {sizes[-1]} prompts told the felt G* in {least} to {most}% of "
        f"simulations, {max(BOTH_ENDS)} in {low} to {high}%"
    ]


def _statistic(values: Floats) -> Statistic:
    return jackknife(values, len(values) - 1)


@dataclass(frozen=True)
class MetricPopulation:
    """The distribution of prompts that a metric's sample of them is drawn from."""

    forms: Forms  # The forms of the sample.
    half: int  # m, completions of half a pool of directions.
    trained: float = math.inf  # Prompts that are trained on, as in `metric_constants`.

    @cached_property
    def _samples(self) -> MetricConstants:
        return metric_constants(self.forms, self.half, self.trained)

    @property
    def constants(self) -> tuple[float, float, float]:
        """c1, c2 and c3 of all prompts."""
        c1, c2, c3 = (float(column[0]) for column in self._samples)
        return c1, c2, c3

    @cached_property
    def effective_prompts(self) -> float:
        """How many prompts carry c1 and c3, the fewest by noise or by curvature."""
        carried = [
            count_carriers(form_KP.mean(axis))
            for form_KP in (self.forms.gradients_KP, self.forms.pairs_KP)
            for axis in range(1 if len(form_KP) == 1 else 2)
        ]
        return min(carried)

    def cost(self, size: float) -> Statistic:
        """N tr(M Cov g_hat) of GRPO-type at group size G > 1; c1 is 0 where negative."""
        each = self._samples
        return _statistic(raise_to_zero(each.c1) * size + each.c2 + each.c3 / (size - 1))

    def constant(self, name: str, level: float) -> Estimate:
        """Estimate one of the constants."""
        constant = _statistic(getattr(self._samples, name))
        return constant.interval(level, most_degrees=self.effective_prompts)

    def best_group_size(self, level: float) -> Estimate:
        """Estimate G* = 1 + sqrt(c3/c1).

        It is 1 where c3 is not positive, infinite where c1 is not, NaN where neither is.
        The interval holds every G at which the slope c1 - c3/(G-1)^2 of the cost is not
        significantly different from zero (Fieller 1954), whatever the constants' signs.
        """
        c1, _, c3 = self.constants
        if c1 <= 0 and c3 <= 0:
            return UNKNOWN
        best = 1 + math.sqrt(max(c3, 0) / c1) if c1 > 0 else math.inf
        least, most = self._flat_slopes(level)
        low = 1 + most**-0.5 if 0 < most < math.inf else 1.0 if most > 0 else math.inf
        high = 1 + least**-0.5 if least > 0 else math.inf
        return Estimate(best, min(best, low), max(best, high if most > 0 else best))

    def _flat_slopes(self, level: float) -> tuple[float, float]:
        """Find the least and largest r >= 0 with c1 - r c3 not significantly non-zero.

        These r satisfy (c1 - r c3)^2 <= t^2 Var(c1 - r c3), a quadratic inequality. The
        largest is negative where no r does.
        """
        each = self._samples
        c1, c3 = _statistic(each.c1), _statistic(each.c3)
        degrees = min(c1.degrees, c3.degrees, self.effective_prompts)
        reach2 = float(special.stdtrit(degrees, (1 + level) / 2)) ** 2 / len(each.c1[1:])
        parts = [part.groups["prompts"][0] for part in (c1, c3)]
        (v11, v13), (_, v33) = np.cov(parts) * reach2
        squared = c3.value**2 - v33
        constant = c1.value**2 - v11
        middle = c1.value * c3.value - v13
        root = math.sqrt(max(middle**2 - squared * constant, 0.0))
        if squared > 0:
            ends = (middle - root) / squared, (middle + root) / squared
            return max(ends[0], 0.0), ends[1]
        if constant <= 0:
            return 0.0, math.inf
        return (middle - root) / squared, math.inf

    def choose(self) -> int | None:
        """Choose the size by the estimates; None where noise at some size costs nothing."""
        costs = {size: self.cost(size).value for size in SIZES}
        return choose_size(costs) if min(costs.values()) > 0 else None

    def ratio(self, size: int, base: int, level: float) -> Estimate:
        """Completions that a size needs to cost as much as another, over the other's."""
        if size == base:
            return Estimate(1.0, 1.0, 1.0)
        ratio = self.cost(size) / self.cost(base)
        return ratio.interval(level, positive=True, most_degrees=self.effective_prompts)

    def shares(self, size: int) -> tuple[float, float]:
        """Split the noise of groups of a size, by prompts, into what costs and what helps.

        These are the sums over prompts x of the positive and of the negative
        tr(M Cov g_hat(x)), as shares of both. Chance makes the smaller one too large.
        """
        pairs_KP = self.forms.pairs_KP
        c2_KP = self.half * self.forms.noises_KP - pairs_KP / (self.half - 1)
        form_KP = c2_KP / size + pairs_KP / (size * (size - 1))
        form_P = form_KP.mean(0)
        if len(form_KP) > 1:
            form_P = (form_KP.sum(0) - np.diag(form_KP)) / (len(form_KP) - 1)
        total = abs(form_P).sum()
        if not total:
            return 0.0, 0.0
        helps = float(-np.minimum(form_P, 0).sum() / total)
        return 1 - helps, helps


@dataclass(frozen=True)
class MetricPools:
    """What is kept of a metric's measurement."""

    settings: str  # The probe's `metric`, as JSON.
    prompts_P: Ints  # The indices of the prompts that were sampled.
    trained: int  # The number of the probe's prompts.
    half: int  # m, completions of half a pool of directions.
    curved: Forms  # Forms in -H or -D H D, the metric that training feels.
    # Forms in D, the identity for SGD: the error of the preconditioned gradient.
    first: Forms

    @property
    def felt(self) -> MetricPopulation:
        """The error, as the reward on prompts that are not trained on feels it."""
        return MetricPopulation(self.curved, self.half)

    @property
    def felt_in_training(self) -> MetricPopulation:
        """The error, as the reward on the trained prompts, the probe's, feels it."""
        return MetricPopulation(self.curved, self.half, self.trained)

    @property
    def first_order(self) -> MetricPopulation:
        """The error of the preconditioned gradient."""
        return MetricPopulation(self.first, self.half)

    def as_arrays(self) -> dict[str, Any]:
        """Give the arrays of `metric.npz`."""
        return {
            "settings": np.array(self.settings),
            "prompts_P": self.prompts_P,
            "trained": np.array(self.trained),
            "half": np.array(self.half),
            **{f"curved_{name}": part for name, part in vars(self.curved).items()},
            **{f"first_{name}": part for name, part in vars(self.first).items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> "MetricPools":
        """Read the arrays of `metric.npz`."""
        count = len(arrays["prompts_P"])

        def forms(prefix: str, metrics: int) -> Forms:
            names = [field.name for field in fields(Forms)]
            parts = {name: np.asarray(arrays[f"{prefix}_{name}"]) for name in names}
            for name, part in parts.items():
                if part.shape != (metrics, count) or not np.isfinite(part).all():
                    raise ValueError(f"{prefix}_{name} is not {metrics} x {count} numbers")
            return Forms(**parts)

        if count < 4 or int(arrays["half"]) < 2:
            raise ValueError("it is of fewer than four prompts or completions")
        return cls(
            settings=str(arrays["settings"]),
            prompts_P=arrays["prompts_P"],
            trained=int(arrays["trained"]),
            half=int(arrays["half"]),
            curved=forms("curved", count),
            first=forms("first", 1),
        )
