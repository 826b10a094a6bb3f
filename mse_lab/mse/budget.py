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
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.mse.bootstrap import Bootstrap, percentiles
from mse_lab.mse.decomposition import without_diagonal
from mse_lab.mse.intervals import LARGEST_LOG, UNKNOWN, Estimate, Statistic, half_width
from mse_lab.mse.moments import Moments, pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_samples import PromptSamples, jackknife, raise_to_zero
from mse_lab.mse.reference_noise import gradient_noise
from mse_lab.mse.samples import Samples


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

# Constants whose estimates are positive. c1 and gradient2 are squares, too, but their
# unbiased estimates are differences of larger squares.
POSITIVE = ("c2", "c3", "vanilla", "batch_mean", "best_constant")


def _constants(
    moments: Moments, own_P: Floats, apart_PP: Floats, samples: PromptSamples
) -> Constants:
    """Evaluate the constants of every sample of prompts, (S,)."""
    ones, means = np.ones_like(own_P), samples.means
    gradient2 = samples.mean_products(apart_PP, ones, ones)
    value, vanilla = means(moments.value), means(moments.constant_baseline(0.0))
    weighted, norm2 = means(moments.reward_norm2), means(moments.norm2)
    return Constants(
        c1=means(own_P) - gradient2,
        c2=means(moments.trace_oracle),
        c3=means(moments.zeta),
        vanilla=vanilla,
        batch_mean=vanilla - 2 * value * weighted + value**2 * norm2,
        best_constant=means(moments.trace_best),
        gradient2=gradient2,
    )


def count_carriers(parts_P: Floats) -> float:
    """Estimate how many prompts carry a sum: (sum |w|)^2 / sum w^2 (Kish), at least one.

    >>> count_carriers(np.array([2.0, 1.0, -1.0, 0.0]))  # 16 / 6, of 4
    2.6666666666666665
    """
    if not parts_P.any():
        return 1.0
    shares = abs(parts_P) / abs(parts_P).max()
    return max(1.0, float(shares.sum() ** 2 / (shares**2).sum()))


@dataclass(frozen=True)
class Population:
    """The distribution of prompts that a run's prompts, three or more, are drawn from."""

    pools: Pools | Samples  # The measurements: pools and references, or samples.
    bootstrap: Bootstrap | None = None  # What draws intervals; None for the jackknife.

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

    @cached_property
    def samples(self) -> Constants:
        """The constants of every sample of prompts, (S,)."""
        own_P, apart_PP = self.gradient2_P, self.products_PP
        return _constants(self.moments, own_P, apart_PP, self.prompt_samples)

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

    def _evaluate(self, figure: Figure, others: Sequence[Any]) -> Floats:
        """Evaluate on every sample of prompts, (S,)."""
        return figure(self.samples, *others)

    def statistic(self, figure: Figure, *others: Any) -> Statistic:
        """Evaluate a figure, with what each prompt contributes to it.

        `others` are further arguments of the figure, (S,).
        """
        return jackknife(self._evaluate(figure, others), self.pools.prompts)

    def estimate(self, figure: Figure, level: float, *others: Any) -> Estimate:
        """Estimate a figure, with an interval that is symmetric about it.

        The bootstrap's interval is that of the percentiles, here and below.
        """
        if self.bootstrap:
            value, *_ = samples = self._evaluate(figure, others)
            draws = samples[1 + self.pools.prompts :]
            return Estimate(float(value), *percentiles(draws, level))
        statistic = self.statistic(figure, *others)
        return statistic.interval(level, most_degrees=self.effective_prompts)

    def estimate_positive(self, figure: Figure, level: float, *others: Any) -> Estimate:
        """Estimate a positive figure, with an interval symmetric in its logarithm.

        Where the figure of all prompts, or of all but one, is not positive: as `estimate`.
        """
        if self.bootstrap or self._evaluate(figure, others).min() <= 0:
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


def falling(ratio: Estimate, power: float) -> Estimate:
    """Raise an estimate to a negative power; infinite where it is not positive."""
    ends = (ratio.value, ratio.high, ratio.low)
    return Estimate(*(end**power if end > 0 else math.inf for end in ends))


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
