"""Random prompts and a fixed budget: which group size is best?

B prompts drawn from the prompt distribution, G completions each, N = B G in all. The
aggregate's MSE against the gradient of the whole distribution is, for GRPO-type,

    MSE = c1/B + c2/(B G) + c3/(B G (G-1)) = (c1 G + c2 + c3/(G-1)) / N,

with c1 = E||g(X) - g||^2, c2 = E[T], c3 = E[zeta], least at G* = 1 + sqrt(c3/c1), whatever
N. This is Proposition 3 and Theorem 7 of arXiv 2603.01162 with the exact constants; the
paper's sqrt(c3/c1) is the form for large G. A constant baseline has c3 = 0, so its best G
is 1.

    c1 = mean_x <r_A(x), r_B(x)> - (1/(P(P-1))) sum_{x != x'} <rbar(x), rbar(x')>

is unbiased: different prompts are independent, so halves are needed on the diagonal only.

Prompts are drawn at random, so every figure here is a statistic of P independent prompts,
and its interval comes from leaving prompts out one at a time (the jackknife).

Where the prompts are all there are, `size` of them, or some of these, drawn without
replacement, c1 is the spread of training's draws among them: with S^2 the unbiased c1 above
c1 = (1 - 1/size) S^2, and ||E g(X)||^2 is that of their mean. Intervals are those of
`two_stage.py`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.mse.bootstrap import Bootstrap, percentiles
from mse_lab.mse.decomposition import without_diagonal
from mse_lab.mse.intervals import (
    LARGEST_LOG,
    UNKNOWN,
    Estimate,
    Statistic,
    falling,
    half_width,
)
from mse_lab.mse.moments import Moments, pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_samples import (
    PromptSamples,
    count_carriers,
    jackknife,
    raise_to_zero,
)
from mse_lab.mse.reference_noise import gradient_noise
from mse_lab.mse.samples import Samples
from mse_lab.mse.two_stage import half_by_half, in_two_stages, noises_of


class Constants(NamedTuple):
    """c1, c2 and c3, and the constants of other estimators.

    They are arrays over samples of prompts: of all prompts, (1,), or (S,), as in
    `prompt_samples.py`.
    """

    c1: Floats  # E||g(X) - g||^2, what only more prompts reduce.
    c2: Floats  # E[T].
    c3: Floats  # E[zeta], the price of a baseline from the group.
    vanilla: Floats  # E[A - ||g||^2], which vanilla has for c2.
    # The same for one baseline E[Z] of all prompts, the mean of a large batch.
    batch_mean: Floats
    best_constant: Floats  # The same for a baseline b* of each prompt.
    # ||E g(X)||^2 of the population; `Pools.aggregate_norm2` is that of the run's prompts,
    # larger by c1/P on average.
    gradient2: Floats

    @property
    def nonnegative_c1(self) -> Floats:
        """c1, raised to be part of a mean square where that of all prompts is negative."""
        return raise_to_zero(self.c1)


# A function of the constants, and of other numbers of the same samples of prompts.
Figure = Callable[..., Floats]

# Positive estimates; those of the squares c1 and gradient2 are differences.
POSITIVE = ("c2", "c3", "vanilla", "batch_mean", "best_constant")


def _constants(
    mean: Callable[[Callable[[Moments], Floats]], Floats], pairs: Floats, size: float
) -> Constants:
    """Evaluate the constants of every sample of prompts, (S,), of `size` in all.

    `mean` averages a moment, `pairs` are mean <g(x), g(x')> of different prompts.
    """
    own = mean(attrgetter("gradient2"))
    gradient2 = pairs + (own - pairs) / size
    value, vanilla = mean(attrgetter("value")), mean(lambda one: one.constant_baseline(0.0))
    weighted, norm2 = mean(attrgetter("reward_norm2")), mean(attrgetter("norm2"))
    return Constants(
        c1=own - gradient2,
        c2=mean(attrgetter("trace_oracle")),
        c3=mean(attrgetter("zeta")),
        vanilla=vanilla,
        batch_mean=vanilla - 2 * value * weighted + value**2 * norm2,
        best_constant=mean(attrgetter("trace_best")),
        gradient2=gradient2,
    )


@dataclass(frozen=True)
class Population:
    """What a run's prompts, three or more, are drawn from: a distribution, or a set."""

    pools: Pools | Samples  # The measurements: pools and references, or samples.
    bootstrap: Bootstrap | None = None  # What draws intervals; None for the jackknife.
    size: float = math.inf  # How many prompts there are in all.

    @cached_property
    def moments(self) -> Moments:
        """Moments of each prompt, (P,)."""
        measured = self.pools
        return measured.moments if isinstance(measured, Samples) else pool_moments(measured)

    @cached_property
    def gradient_noise_P(self) -> Floats:
        """Standard error of each prompt's ||g||^2 from the noise of completions, (P,)."""
        measured = self.pools
        if isinstance(measured, Samples):
            return measured.gradient_noise_P
        return gradient_noise(measured)

    @property
    def gradient2_P(self) -> Floats:
        """||g(x)||^2, unbiased."""
        return np.diag(self.pools.gradient_products_PP)

    @cached_property
    def products_PP(self) -> Floats:
        """<g(x), g(x')> of different prompts; zero on the diagonal."""
        return without_diagonal(self.pools.gradient_products_PP)

    @cached_property
    def prompt_samples(self) -> PromptSamples:
        """All prompts, all but each, and the draws of the bootstrap."""
        prompts = self.pools.prompts
        if self.bootstrap is None:
            return PromptSamples.without_draws(prompts)
        return PromptSamples(self.bootstrap.count_prompts(prompts))

    def mean_products(self, left_P: Floats, right_P: Floats) -> Floats:
        """<E left(X) g(X), E right(X) g(X)> of every sample of prompts, (S,)."""
        samples = self.prompt_samples
        pairs = samples.mean_products(self.products_PP, left_P, right_P)
        if self.size == math.inf:
            return pairs
        own = samples.means(left_P * right_P * self.gradient2_P)
        return pairs + (own - pairs) / self.size

    @cached_property
    def samples(self) -> Constants:
        """The constants of every sample of prompts, (S,)."""
        samples, ones = self.prompt_samples, np.ones(self.pools.prompts)
        pairs = samples.mean_products(self.products_PP, ones, ones)
        return _constants(
            lambda moment: samples.means(moment(self.moments)), pairs, self.size
        )

    @cached_property
    def half_samples(self) -> list[tuple[Constants, Floats | float]]:
        """The constants where a prompt is measured by half: see `half_by_half`."""
        if self.size == math.inf:
            return []
        evaluate = partial(_constants, size=self.size)
        return half_by_half(self.pools, self.moments, self.products_PP.sum(1), evaluate)

    @property
    def share(self) -> float:
        """n/P, the share of all prompts that is measured; 0 where it narrows nothing."""
        return self.pools.prompts / self.size if self.half_samples else 0.0

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

    def contributions(self, figure: Figure, *others: Any) -> Statistic:
        """Evaluate a figure, with what each prompt, drawn at random, contributes to it.

        `others` are further arguments of the figure, (S,).
        """
        return jackknife(figure(self.samples, *others), self.pools.prompts)

    def statistic(self, figure: Figure, *others: Any) -> Statistic:
        """Evaluate a figure, with what each prompt contributes to it, by two stages.

        With `others` (see `contributions`) it counts as one of a larger distribution, whose
        variance is no smaller.
        """
        whole = self.contributions(figure, *others)
        noises = [] if others else noises_of(figure, self.half_samples)
        return in_two_stages(whole, noises, self.share)

    def estimate(self, figure: Figure, level: float, *others: Any) -> Estimate:
        """Estimate a figure, with an interval that is symmetric about it.

        The bootstrap's interval is that of the percentiles, here and below.
        """
        if self.bootstrap:
            value, *_ = samples = figure(self.samples, *others)
            draws = samples[1 + self.pools.prompts :]
            return Estimate(float(value), *percentiles(draws, level))
        statistic = self.statistic(figure, *others)
        return statistic.interval(level, most_degrees=self.effective_prompts)

    def estimate_positive(self, figure: Figure, level: float, *others: Any) -> Estimate:
        """Estimate a positive figure, with an interval symmetric in its logarithm.

        Where the figure of all prompts, or of all but one, is not positive: as `estimate`.
        """
        halves = [] if others else [figure(one).min() for one, _ in self.half_samples]
        if self.bootstrap or min(figure(self.samples, *others).min(), *halves, 1) <= 0:
            return self.estimate(figure, level, *others)
        logs = self.estimate(lambda *each: np.log(figure(*each)), level, *others)
        return Estimate(*(math.exp(min(end, LARGEST_LOG)) for end in logs))

    def constant(self, name: str, level: float) -> Estimate:
        """Estimate a constant; c1 is positive where `best_group_size` takes it to be."""
        positive = name in POSITIVE or (name == "c1" and self.knows_c1(level))
        estimate = self.estimate_positive if positive else self.estimate
        return estimate(attrgetter(name), level)

    def estimates(self, level: float) -> dict[str, Estimate]:
        """Estimate all constants, by the names of `Constants`."""
        return {name: self.constant(name, level) for name in Constants._fields}

    def knows_c1(self, level: float) -> bool:
        """Whether c1 is above zero by more than the noise of completions explains.

        If all prompts had one gradient, c1's estimate would vary by that noise alone.
        """
        error = math.sqrt(float((self.gradient_noise_P**2).sum())) / self.pools.prompts
        return float(self.constants.c1.item()) > half_width(error, level)

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


def mse_times_budget(
    estimator: str, constants: Constants, group_size: Floats | float
) -> Floats:
    """N x MSE at a budget of N completions; c1 is 0 where its estimate is negative.

    c1 G + c2 + c3 / (G-1) for `grpo`; for `vanilla`, `oracle`, `batch-mean` and
    `best-constant` c1 G and the constant of that name.
    """
    size = np.asarray(group_size, dtype=float)
    between = constants.nonnegative_c1 * size
    if estimator == "grpo":
        return between + constants.c2 + constants.c3 / (size - 1)
    name = "c2" if estimator == "oracle" else estimator.replace("-", "_")
    return np.asarray(between + getattr(constants, name))
