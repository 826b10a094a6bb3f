"""The table of prompts: what every figure over random prompts is a function of.

For each prompt it has the unbiased V, Var(Z), S, A, T, zeta and ||g||^2, and the products
<g(x), g(x')> between prompts, whether they come from a run's pools or from few samples.

Prompts are drawn at random, so a figure is a statistic of P independent prompts. Leaving
them out one at a time (the jackknife) shows how it varies, and how biased a ratio is.
Arrays (S,) hold a figure of all prompts, then of all but each, then of B draws of the
bootstrap, if any. Where the prompts are all that there are, `size` of them, or some of
these, drawn without replacement, intervals are those of `two_stage.py`.

Every completion of a run counts for ||g||^2: the products of the reference's halves, of the
replicates with the reference, and of replicates inside a block, each pair of completions
with one weight. Between prompts only the reference's gradients are kept.

B prompts drawn from the prompt distribution, G completions each, N = B G in all. The
aggregate's MSE against the gradient of the whole distribution is, for GRPO-type,

    MSE = c1/B + c2/(B G) + c3/(B G (G-1)) = (c1 G + c2 + c3/(G-1)) / N,

with c1 = E||g(X) - g||^2, c2 = E[T], c3 = E[zeta], least at G* = 1 + sqrt(c3/c1), whatever
N. This is Proposition 3 and Theorem 7 of arXiv 2603.01162 with exact constants; the
paper's G* = sqrt(c3/c1) is the form for large G. A constant baseline has c3 = 0, so its
best G is 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np

from mse_lab.arrays import LARGEST, Floats, divide
from mse_lab.estimators.groups import two_values
from mse_lab.mse.intervals import (
    LARGEST_LOG,
    UNKNOWN,
    Bootstrap,
    Estimate,
    Statistic,
    falling,
    half_width,
    percentiles,
)
from mse_lab.mse.laws import WrongRight
from mse_lab.mse.moments import Moments, pool_moments
from mse_lab.mse.pools import Pools, without_diagonal
from mse_lab.mse.reference_noise import gradient2_of_all, noise_of_all
from mse_lab.mse.samples import Samples
from mse_lab.mse.two_stage import (
    Halves,
    half_by_half,
    halves_of_pools,
    halves_of_samples,
    in_two_stages,
    noises_of,
)


@dataclass(frozen=True)
class PromptSamples:
    """S = 1 + P + B samples of P prompts."""

    counts_BP: Floats  # How often each prompt is in each draw of the bootstrap.

    @property
    def prompts(self) -> int:
        """How many prompts there are."""
        return self.counts_BP.shape[1]

    def means(self, values_P: Floats) -> Floats:
        """Mean over the prompts of each sample, (S,)."""
        total, count = values_P.sum(), self.prompts
        drawn = divide(self.counts_BP @ values_P, self.counts_BP.sum(1))
        left_out = divide(total - values_P, count - 1)
        return np.concatenate([[total / count], left_out, drawn])

    def mean_products(self, apart_PP: Floats, left_P: Floats, right_P: Floats) -> Floats:
        """Average left_x <g(x), g(x')> right_x' over pairs x != x' of each sample, (S,).

        The products `apart_PP` are zero on the diagonal.
        """
        rows_P, columns_P = left_P * (apart_PP @ right_P), (left_P @ apart_PP) * right_P
        left_BP, right_BP = self.counts_BP * left_P, self.counts_BP * right_P
        drawn = ((left_BP @ apart_PP) * right_BP).sum(1)
        pairs_B = self.counts_BP.sum(1) ** 2 - (self.counts_BP**2).sum(1)
        whole = self.mean_of_pairs(rows_P, columns_P)
        return np.concatenate([whole, divide(drawn, pairs_B)])

    def mean_of_pairs(self, rows_P: Floats, columns_P: Floats) -> Floats:
        """Average products over pairs x != x' of each sample, by sums over the others x'.

        Without draws of the bootstrap, which take each product.
        """
        count, total = self.prompts, rows_P.sum()
        others = total - rows_P - columns_P
        pairs, fewer = count * (count - 1), (count - 1) * (count - 2)
        return np.concatenate([[divide(total, pairs)], divide(others, fewer)])

    def without_bias(self, ratio: Floats) -> Floats:
        """Subtract from a ratio (S,) its bias by the jackknife."""
        left_out = ratio[1 : 1 + self.prompts]
        return ratio - (self.prompts - 1) * (left_out.mean() - ratio[0])


def count_carriers(parts_P: Floats) -> float:
    """Estimate how many prompts carry a sum: (sum |w|)^2 / sum w^2 (Kish), at least one.

    >>> count_carriers(np.array([2.0, 1.0, -1.0, 0.0]))  # 16 / 6, of 4
    2.6666666666666665
    """
    if not parts_P.any():
        return 1.0
    shares = abs(parts_P) / abs(parts_P).max()
    return max(1.0, float(shares.sum() ** 2 / (shares**2).sum()))


def mean_over_prompts(values_P: Floats) -> Statistic:
    """Estimate the mean of a number over random prompts."""
    return Statistic(float(values_P.mean()), {"prompts": values_P[None]}, {})


def raise_to_zero(square: Floats) -> Floats:
    """Raise a mean square's estimates, (S,), so that that of all prompts is not negative.

    All samples are raised by the same amount: clipped at zero, they would not vary.
    """
    return square - min(square[0], 0.0)


class Constants(NamedTuple):
    """c1, c2 and c3, and the constants of other estimators.

    They are arrays over samples of prompts, (S,), the first of which is all of them.
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


# Positive estimates; those of the squares c1 and gradient2 are differences.
POSITIVE_CONSTANTS = ("c2", "c3", "vanilla", "batch_mean", "best_constant")

# Averages a moment over prompts.
Mean = Callable[[Callable[[Moments], Floats]], Floats]


def one_baseline(mean: Mean, baseline: Floats) -> Floats:
    """E[A - 2 b B + b^2 S - ||g||^2] at one baseline b of all prompts, (S,)."""
    vanilla = mean(lambda one: one.constant_baseline(0.0))
    weighted, norm2 = mean(attrgetter("reward_norm2")), mean(attrgetter("norm2"))
    return vanilla - 2 * baseline * weighted + baseline**2 * norm2


def find_constants(mean: Mean, pairs: Floats, size: float) -> Constants:
    """Evaluate the constants of every sample of prompts, (S,), of `size` in all.

    `mean` averages a moment, `pairs` are mean <g(x), g(x')> of different prompts. Where the
    prompts are all that there are, c1 is the spread of training's draws among them:
    (1 - 1/size) of the unbiased mean ||g(x)||^2 - <g(x), g(x')>.
    """
    each = mean(attrgetter("gradient2"))
    gradient2 = pairs + (each - pairs) / size
    return Constants(
        c1=each - gradient2,
        c2=mean(attrgetter("trace_oracle")),
        c3=mean(attrgetter("zeta")),
        vanilla=mean(lambda one: one.constant_baseline(0.0)),
        batch_mean=one_baseline(mean, mean(attrgetter("value"))),
        best_constant=mean(attrgetter("trace_best")),
        gradient2=gradient2,
    )


# A function of the constants, or any numbers of the samples of prompts, (S,).
Figure = Callable[[Constants], Floats] | Floats


@dataclass(frozen=True, eq=False)
class PromptTable:
    """P prompts, three or more, drawn from a distribution, or all or some of a set."""

    moments: Moments  # Of each prompt, (P,).
    products_PP: Floats  # <g(x), g(x')> of different prompts; zero on the diagonal.
    gradient_noise_P: Floats  # Standard error of each ||g(x)||^2, by its completions alone.
    values: WrongRight | None  # The two of all rewards; None where these have others.
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
            values=two_values(samples.rewards),
            halves=() if size == math.inf else tuple(halves_of_samples(samples)),
            size=size,
            drawn=samples,
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
    def varied(self) -> int:
        """How many prompts have completions of different rewards."""
        return int((self.moments.variance > 0).sum())

    @cached_property
    def prompt_samples(self) -> PromptSamples:
        """All prompts, all but each, and the draws of the bootstrap."""
        if self.bootstrap is None:
            return PromptSamples(np.zeros((0, self.prompts)))
        return PromptSamples(self.bootstrap.count_prompts(self.prompts))

    def mean_products(self, left_P: Floats, right_P: Floats) -> Floats:
        """<E left(X) g(X), E right(X) g(X)> of every sample of prompts, (S,)."""
        pairs = self.prompt_samples.mean_products(self.products_PP, left_P, right_P)
        return self.with_squares(pairs, left_P * right_P * self.moments.gradient2)

    def with_squares(self, pairs: Floats, each_P: Floats) -> Floats:
        """Add to a mean over pairs, (S,), what each prompt adds with itself, if a set."""
        if self.size == math.inf:
            return pairs
        return pairs + (self.prompt_samples.means(each_P) - pairs) / self.size

    @cached_property
    def samples(self) -> Constants:
        """The constants of every sample of prompts, (S,), each unbiased."""
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
        samples, prompts = self._evaluate(figure), self.prompts
        differences_P = (prompts - 1) * (samples[0] - samples[1 : 1 + prompts])
        # Those of a ratio may be large, and their fourth powers must be finite.
        bounded = np.clip(differences_P, -(LARGEST**3), LARGEST**3)
        return Statistic(float(samples[0]), {"prompts": bounded[None]}, {})

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
        return float(self.samples.c1[0]) > half_width(error, level)

    def knows_gradient(self, level: float) -> bool:
        """Whether ||E g(X)||^2 is significantly positive."""
        return self.constant("gradient2", level).low > 0

    def best_group_size(self, level: float) -> Estimate:
        """Estimate G* = 1 + sqrt(c3/c1) from c1/c3, which is finite whatever c1.

        NaN where c3 is not positive, as where no reward varies.
        """
        if self.samples.c3[0] <= 0:
            return UNKNOWN
        estimate = self.estimate_positive if self.knows_c1(level) else self.estimate
        ratio = estimate(lambda one: divide(one.c1, one.c3), level)
        return Estimate(*(1 + end for end in falling(ratio, -0.5)))
