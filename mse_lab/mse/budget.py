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

For an estimator whose mean is h(x) = slope(x) g(x), which for rewards 0 and 1 is any whose
weights depend on a group's rewards alone, with hbar = E h(X) and of one group

    E||g_hat||^2 = ||hbar||^2 + (between + within) / B,
    between = E||h(X) - hbar||^2,  within = E[tr Var(g_hat | X)].

A factor is a learning rate's, so what counts is min_a E||a g_hat - g||^2 =
||g||^2 - <hbar, g>^2 / E||g_hat||^2, the scale-free MSE. The squared cosine of hbar with g
is a ratio of estimates, too large by order 1/P where slopes differ, which may exceed the
whole relative MSE; the jackknife takes that off.

Prompts are drawn at random, so every figure of these is a statistic of P independent
prompts, and its interval comes from leaving them out one at a time (the jackknife).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from mse_lab.arrays import LARGEST, Floats, divide
from mse_lab.mse.decomposition import without_diagonal
from mse_lab.mse.intervals import LARGEST_LOG, Estimate, Statistic
from mse_lab.mse.moments import pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.reference_noise import gradient_noise


class Constants(NamedTuple):
    """c1, c2 and c3, and their like; arrays over samples of prompts.

    Attributes:
        between: c1 = E||g(X) - g||^2, what only more prompts reduce.
        oracle: c2 = E[T].
        pairs: c3 = E[zeta], the price of a baseline from the group.
        vanilla: E[A - ||g||^2], in the place of c2 for vanilla.
        batch_mean: The same for one baseline E[Z] for all prompts, a large batch's mean.
        best_constant: The same for a baseline b* of each prompt.
        gradient2: ||E g(X)||^2 of the population; that of the run's own prompts is
            `Pools.aggregate_norm2`, larger by c1/P on average.
        spread: c1 as part of an error, which is a mean square: where c1 of all prompts is
            negative, raised so that it is 0, and with a prompt left out by as much.
    """

    between: Floats
    oracle: Floats
    pairs: Floats
    vanilla: Floats
    batch_mean: Floats
    best_constant: Floats
    gradient2: Floats
    spread: Floats


class Direction(NamedTuple):
    """Where an estimator points over random prompts; arrays over samples of prompts.

    Attributes:
        mean_norm2: ||hbar||^2.
        cosine2: Squared cosine of hbar with E g(X).
        between: E||h(X) - hbar||^2, what only more prompts reduce, as `Constants.spread`.
        within: E[tr Var(g_hat | X)] of one group.
    """

    mean_norm2: Floats
    cosine2: Floats
    between: Floats
    within: Floats

    @property
    def noise(self) -> Floats:
        """B times the variance of a batch of B groups."""
        return self.between + self.within


# Of all prompts, floats (1,), and with one left out, (P,).
Directions = tuple[Direction, Direction]

# What a figure is evaluated at besides the constants, in the same two shapes.
Sides = tuple[Any, Any]

# A function of the constants, and of one of the two sides of each that is given besides.
Figure = Callable[..., Floats]

# The others are squares, too, but estimated without bias as differences of larger ones.
POSITIVE = ("oracle", "pairs", "vanilla", "batch_mean", "best_constant")


def count_carriers(parts_P: Floats) -> float:
    """Count the prompts that carry a sum: (sum |w|)^2 / sum w^2 (Kish), at least one.

    >>> count_carriers(np.array([2.0, 1.0, -1.0, 0.0]))  # 16 / 6, of 4
    2.6666666666666665
    """
    if not parts_P.any():
        return 1.0
    shares = abs(parts_P) / abs(parts_P).max()
    return max(1.0, float(shares.sum() ** 2 / (shares**2).sum()))


def means(values_P: Floats) -> Floats:
    """Mean over all prompts, then over all but each, (1 + P,)."""
    total, count = values_P.sum(), len(values_P)
    return np.append(total / count, divide(total - values_P, count - 1))


def _mean_products(apart_PP: Floats, left_P: Floats, right_P: Floats) -> Floats:
    """Average left_x <g(x), g(x')> right_x' over pairs x != x', as `means`, (1 + P,).

    Args:
        apart_PP: The products, zero on the diagonal.
        left_P: Factors.
        right_P: Factors.
    """
    count, rows, columns = len(left_P), apart_PP @ right_P, left_P @ apart_PP
    total = left_P @ rows
    others = total - left_P * rows - columns * right_P
    pairs, fewer = count * (count - 1), (count - 1) * (count - 2)
    return np.append(divide(total, pairs), divide(others, fewer))


def _without_bias(ratio: Floats) -> Floats:
    """Take off a ratio what the jackknife finds it too large by, (1 + P,)."""
    return ratio - (len(ratio) - 2) * (ratio[1:].mean() - ratio[0])


def _raise_to_zero(square: Floats) -> Floats:
    """Raise a mean square's estimates, (1 + P,), by what the first one is below zero.

    So what varies goes on varying: left-out prompts held at zero would hide it.
    """
    return square - min(square[0], 0.0)


def split(found: tuple[Floats, ...]) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Tell what is of all prompts, (1,), from what is of all but each, (P,)."""
    return tuple(one[:1] for one in found), tuple(one[1:] for one in found)


def _constants(pools: Pools, apart_PP: Floats) -> tuple[Constants, Constants]:
    """Evaluate the constants of all prompts, (1,), and of all but each, (P,)."""
    moments, ones = pool_moments(pools), np.ones(pools.prompts)
    gradient2, value = _mean_products(apart_PP, ones, ones), means(moments.value)
    vanilla = means(moments.constant_baseline(0.0))
    weighted, norm2 = means(moments.reward_norm2), means(moments.norm2)
    between = means(pools.reference_product_P) - gradient2
    found = Constants(
        between=between,
        oracle=means(moments.trace_oracle),
        pairs=means(moments.zeta),
        vanilla=vanilla,
        batch_mean=vanilla - 2 * value * weighted + value**2 * norm2,
        best_constant=means(moments.trace_best),
        gradient2=gradient2,
        spread=_raise_to_zero(between),
    )
    whole, others = split(found)
    return Constants(*whole), Constants(*others)


@dataclass(frozen=True)
class Population:
    """The distribution of prompts that a run's prompts, three or more, are drawn from."""

    pools: Pools

    @cached_property
    def _products_PP(self) -> Floats:
        """<g(x), g(x')> of different prompts; zero on the diagonal."""
        return without_diagonal(self.pools.gradient_products_PP)

    @cached_property
    def _both(self) -> tuple[Constants, Constants]:
        return _constants(self.pools, self._products_PP)

    @cached_property
    def constants(self) -> Constants:
        """The constants, each unbiased, of two prompts or more; floats (1,)."""
        return self._both[0]

    @cached_property
    def without_one(self) -> Constants:
        """The constants with one prompt left out, (P,)."""
        return self._both[1]

    @cached_property
    def effective_prompts(self) -> float:
        """How many prompts carry c1 and c3, the smaller one.

        As degrees of freedom they cap those of every interval over prompts: the spread of
        a few prompts, one of which is far larger, cannot tell how large the next may be.
        """
        moments = pool_moments(self.pools)
        carried = (moments.gradient2, moments.zeta)
        return min((count_carriers(one) for one in carried if one.any()), default=1.0)

    def directions(self, slope_P: Floats, within_P: Floats) -> Directions:
        """Estimate where an estimator points, by its slope and noise on each prompt."""
        products, ones = self._products_PP, np.ones_like(slope_P)
        products_P = self.pools.reference_product_P
        mean_norm2 = _mean_products(products, slope_P, slope_P)
        inner = _mean_products(products, slope_P, ones)
        lengths2 = mean_norm2 * _mean_products(products, ones, ones)
        found = Direction(
            mean_norm2=mean_norm2,
            cosine2=_without_bias(divide(inner**2, lengths2)),
            between=_raise_to_zero(means(slope_P**2 * products_P) - mean_norm2),
            within=means(within_P),
        )
        whole, others = split(found)
        return Direction(*whole), Direction(*others)

    def _evaluate(self, figure: Figure, besides: Sequence[Sides]) -> list[Floats]:
        """Evaluate on all prompts, (1,), and with one left out, (P,)."""
        both = zip((self.constants, self.without_one), *besides, strict=True)
        return [figure(*one) for one in both]

    def statistic(self, figure: Figure, *besides: Sides) -> Statistic:
        """Give a function of the constants with what each prompt contributes."""
        whole, others = self._evaluate(figure, besides)
        value = float(whole.item())
        apart = (self.pools.prompts - 1) * (value - others)
        # A ratio's may be larger than an error's; their fourth powers are to be numbers.
        bounded = np.clip(apart, -(LARGEST**3), LARGEST**3)
        return Statistic(value, {"prompts": bounded[None]}, {})

    def estimate(self, figure: Figure, level: float, *besides: Sides) -> Estimate:
        """Give a function of the constants its interval, symmetric about it."""
        found = self.statistic(figure, *besides)
        return found.interval(level, most_degrees=self.effective_prompts)

    def estimate_positive(self, figure: Figure, level: float, *besides: Sides) -> Estimate:
        """Give one that is positive by nature its interval, symmetric in the logarithm.

        Where it, or what is left of it without a prompt, is not positive, as `estimate`.
        """
        if min(one.min() for one in self._evaluate(figure, besides)) <= 0:
            return self.estimate(figure, level, *besides)
        logs = self.estimate(lambda *one: np.log(figure(*one)), level, *besides)
        return Estimate(*(math.exp(min(end, LARGEST_LOG)) for end in logs))

    def constant(self, name: str, level: float) -> Estimate:
        """Give one of the constants its interval; of c1 as `best_group_size` has it."""
        positive = name in POSITIVE or (name == "between" and self.knows_between(level))
        estimate = self.estimate_positive if positive else self.estimate
        return estimate(attrgetter(name), level)

    def knows_between(self, level: float) -> bool:
        """Whether c1 is above zero by more than the reference's noise explains.

        Were all gradients one, c1's estimate would vary by that noise alone.
        """
        noise = math.sqrt(float((gradient_noise(self.pools) ** 2).sum()))
        reach = float(stats.norm.ppf((1 + level) / 2)) * noise / self.pools.prompts
        return float(self.constants.between.item()) > reach

    def best_group_size(self, level: float) -> Estimate:
        """G* = 1 + sqrt(c3/c1), by way of c1/c3, which is finite whatever c1."""

        def ratio(one: Constants) -> Floats:
            return divide(one.between, one.pairs)

        estimate = self.estimate_positive if self.knows_between(level) else self.estimate
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
    spread = constants.spread * size
    if estimator == "grpo":
        return spread + constants.oracle + constants.pairs / (size - 1)
    return np.asarray(spread + getattr(constants, estimator.replace("-", "_")))


def efficiency(
    constants: Constants, direction: Direction, group_size: int, cost: Floats, budget: float
) -> Floats:
    """Completions that an unbiased estimator needs, over those that this one needs.

    Both for the scale-free MSE of the unbiased one at the budget. With r its MSE / ||g||^2
    there, c the cosine of hbar with g, and E||g_hat||^2 = ||hbar||^2 (1 + q G / N), that is
    (c^2 (1 + r) - 1) / (q G / N): the budget cancels where c = 1. Zero or less where
    nothing but a turn of hbar could do it.

    Args:
        constants: The constants.
        direction: Where this estimator points.
        group_size: Its group size G.
        cost: N x MSE of the unbiased estimator.
        budget: N.
    """
    needed = direction.cosine2 * (1 + divide(cost, budget * constants.gradient2)) - 1
    return divide(needed * budget * direction.mean_norm2, group_size * direction.noise)
