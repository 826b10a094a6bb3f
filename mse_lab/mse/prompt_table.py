"""The table of prompts: what every figure over random prompts is a function of.

For each prompt it has the unbiased V, Var(Z), S, A, T, zeta and ||g||^2, and the products
<g(x), g(x')> between prompts, whether they come from a run's pools or from few samples.

Prompts are drawn at random, so a figure is a statistic of P independent prompts, and its
interval comes from leaving prompts out one at a time (the jackknife). Where the prompts are
all that there are, `size` of them, or some of these, drawn without replacement, intervals
are those of `two_stage.py`.

Every completion of a run counts for ||g||^2: the products of the reference's halves, of the
replicates with the reference, and of replicates inside a block, each pair of completions
with one weight. Between prompts only the reference's gradients are kept.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Self

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.estimators import Estimator
from mse_lab.estimators.groups import two_values
from mse_lab.mse.bootstrap import Bootstrap, percentiles
from mse_lab.mse.constants import POSITIVE_CONSTANTS, Constants, find_constants
from mse_lab.mse.decomposition import without_diagonal
from mse_lab.mse.intervals import (
    LARGEST_LOG,
    UNKNOWN,
    Estimate,
    Statistic,
    falling,
    half_width,
)
from mse_lab.mse.laws import WRONG_RIGHT, Law, WrongRight, find_law
from mse_lab.mse.moments import Moments, pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_samples import PromptSamples, count_carriers, jackknife
from mse_lab.mse.samples import Samples
from mse_lab.mse.two_stage import (
    Halves,
    half_by_half,
    halves_of_pools,
    halves_of_samples,
    in_two_stages,
    noises_of,
)
from mse_lab.mse.whole_gradient import gradient2_of_all, noise_of_all

# A function of the constants, or any numbers of the samples of prompts, (S,).
Figure = Callable[[Constants], Floats] | Floats


@dataclass(frozen=True, eq=False)
class PromptTable:
    """P prompts, three or more, drawn from a distribution, or all or some of a set."""

    moments: Moments  # Of each prompt, (P,).
    products_PP: Floats  # <g(x), g(x')> of different prompts; zero on the diagonal.
    gradient_noise_P: Floats  # Standard error of each ||g(x)||^2, by its completions alone.
    binary: bool  # Whether all rewards are 0 or 1.
    values: WrongRight | None = None  # The two of rewards that are not 0 and 1.
    halves: tuple[Halves, ...] = ()  # By half its completions, where the prompts are a set.
    size: float = math.inf  # How many prompts there are in all.
    bootstrap: Bootstrap | None = None  # What draws intervals; None for the jackknife.
    drawn: Samples | None = None  # Few completions of each; None for a run's pools.

    @classmethod
    def of_pools(
        cls, pools: Pools, *, size: float = math.inf, bootstrap: Bootstrap | None = None
    ) -> Self:
        """Make the table of a run, from its pools and their reference."""
        moments = replace(pool_moments(pools), gradient2=gradient2_of_all(pools))
        return cls(
            moments=moments,
            products_PP=without_diagonal(pools.between_PP),
            gradient_noise_P=noise_of_all(pools),
            binary=pools.binary,
            values=two_values([pools.rewards_PN, pools.reference_rewards_PN]),
            halves=() if size == math.inf else tuple(halves_of_pools(pools, moments)),
            size=size,
            bootstrap=bootstrap,
        )

    @classmethod
    def of_samples(cls, samples: Samples, size: float = math.inf) -> Self:
        """Make the table of few completions of each prompt."""
        return cls(
            moments=samples.moments,
            products_PP=without_diagonal(samples.gradient_products_PP),
            gradient_noise_P=samples.gradient_noise_P,
            binary=samples.binary,
            values=two_values(samples.rewards),
            halves=() if size == math.inf else tuple(halves_of_samples(samples)),
            size=size,
            drawn=samples,
        )

    def find_law(self, estimator: Estimator, size: int) -> Callable[[Moments], Law] | None:
        """Find an estimator's law at a group size for these rewards; None without one."""
        values = WRONG_RIGHT if self.binary else self.values
        return find_law(
            estimator, size, binary=values is not None, values=values or WRONG_RIGHT
        )

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """What was worked out by these prompts, whatever is asked of them."""
        return {}

    @property
    def prompts(self) -> int:
        """P."""
        return len(self.products_PP)

    @property
    def gradient2_P(self) -> Floats:
        """||g(x)||^2, unbiased."""
        return self.moments.gradient2

    @property
    def varied(self) -> int:
        """How many prompts have completions of different rewards."""
        return int((self.moments.variance > 0).sum())

    @cached_property
    def prompt_samples(self) -> PromptSamples:
        """All prompts, all but each, and the draws of the bootstrap."""
        if self.bootstrap is None:
            return PromptSamples.without_draws(self.prompts)
        return PromptSamples(self.bootstrap.count_prompts(self.prompts))

    def mean_products(self, left_P: Floats, right_P: Floats) -> Floats:
        """<E left(X) g(X), E right(X) g(X)> of every sample of prompts, (S,)."""
        pairs = self.prompt_samples.mean_products(self.products_PP, left_P, right_P)
        return self.with_squares(pairs, left_P * right_P * self.gradient2_P)

    def with_squares(self, pairs: Floats, each_P: Floats) -> Floats:
        """Add to a mean over pairs, (S,), what each prompt adds with itself, if a set."""
        if self.size == math.inf:
            return pairs
        return pairs + (self.prompt_samples.means(each_P) - pairs) / self.size

    @cached_property
    def samples(self) -> Constants:
        """The constants of every sample of prompts, (S,)."""
        samples, ones = self.prompt_samples, np.ones(self.prompts)
        pairs = samples.mean_products(self.products_PP, ones, ones)
        return find_constants(
            lambda moment: samples.means(moment(self.moments)), pairs, self.size
        )

    @cached_property
    def half_samples(self) -> list[tuple[Constants, Floats | float]]:
        """The constants where a prompt is measured by half: see `half_by_half`."""
        evaluate = partial(find_constants, size=self.size)
        return half_by_half(self.halves, self.moments, self.products_PP.sum(1), evaluate)

    @property
    def share(self) -> float:
        """n/P, the share of all prompts that is measured; 0 where it narrows nothing."""
        return self.prompts / self.size if self.halves else 0.0

    @cached_property
    def constants(self) -> Constants:
        """The constants of all prompts, each unbiased, (1,)."""
        return Constants(*(samples[:1] for samples in self.samples))

    @cached_property
    def effective_prompts(self) -> float:
        """How many prompts carry c1, or c3 if those are fewer.

        Intervals over prompts have at most as many degrees of freedom: the spread of a few
        prompts, one of which is far larger, does not say how large the next one may be.
        """
        carried = (self.moments.gradient2, self.moments.zeta)
        return min(
            (count_carriers(parts_P) for parts_P in carried if parts_P.any()), default=1.0
        )

    def _evaluate(self, figure: Figure) -> Floats:
        return figure(self.samples) if callable(figure) else figure

    def contributions(self, figure: Figure) -> Statistic:
        """Evaluate a figure, with what each prompt, drawn at random, contributes to it."""
        return jackknife(self._evaluate(figure), self.prompts)

    def statistic(self, figure: Figure) -> Statistic:
        """Evaluate a figure, with what each prompt contributes to it, by two stages.

        Any numbers count as those of a larger distribution, whose variance is no smaller.
        """
        whole = self.contributions(figure)
        noises = noises_of(figure, self.half_samples) if callable(figure) else []
        return in_two_stages(whole, noises, self.share)

    def estimate(self, figure: Figure, level: float) -> Estimate:
        """Estimate a figure, with an interval that is symmetric about it.

        The bootstrap's interval is that of the percentiles, here and below.
        """
        if self.bootstrap:
            value, *_ = samples = self._evaluate(figure)
            draws = samples[1 + self.prompts :]
            return Estimate(float(value), *percentiles(draws, level))
        statistic = self.statistic(figure)
        return statistic.interval(level, most_degrees=self.effective_prompts)

    def estimate_positive(self, figure: Figure, level: float) -> Estimate:
        """Estimate a positive figure, with an interval symmetric in its logarithm.

        Where the figure of all prompts, or of all but one, is not positive: as `estimate`.
        """
        values = [self._evaluate(figure)]
        if callable(figure):
            values += [figure(one) for one, _ in self.half_samples]
        if self.bootstrap or min(one.min() for one in values) <= 0:
            return self.estimate(figure, level)
        logs = self.estimate(
            (lambda one: np.log(figure(one))) if callable(figure) else np.log(figure), level
        )
        return Estimate(*(math.exp(min(end, LARGEST_LOG)) for end in logs))

    def constant(self, name: str, level: float) -> Estimate:
        """Estimate a constant; c1 is positive where `best_group_size` takes it to be."""
        positive = name in POSITIVE_CONSTANTS or (name == "c1" and self.knows_c1(level))
        estimate = self.estimate_positive if positive else self.estimate
        return estimate(attrgetter(name), level)

    def estimates(self, level: float) -> dict[str, Estimate]:
        """Estimate all constants, by the names of `Constants`."""
        return {name: self.constant(name, level) for name in Constants._fields}

    def knows_c1(self, level: float) -> bool:
        """Whether c1 is above zero by more than the noise of completions explains.

        If all prompts had one gradient, c1's estimate would vary by that noise alone.
        """
        error = math.sqrt(float((self.gradient_noise_P**2).sum())) / self.prompts
        return float(self.constants.c1.item()) > half_width(error, level)

    def knows_gradient(self, level: float) -> bool:
        """Whether ||E g(X)||^2 is significantly positive."""
        return self.constant("gradient2", level).low > 0

    def best_group_size(self, level: float) -> Estimate:
        """Estimate G* = 1 + sqrt(c3/c1) from c1/c3, which is finite whatever c1.

        NaN where c3 is not positive, as where no reward varies.
        """
        if self.constants.c3.item() <= 0:
            return UNKNOWN

        def ratio(samples: Constants) -> Floats:
            return divide(samples.c1, samples.c3)

        estimate = self.estimate_positive if self.knows_c1(level) else self.estimate
        return Estimate(*(1 + end for end in falling(estimate(ratio, level), -0.5)))
