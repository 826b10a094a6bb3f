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

Prompts are drawn at random, so every figure of these is a statistic of P independent
prompts, and its interval comes from leaving them out one at a time (the jackknife).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from scipy import stats

from mse_lab.arrays import Floats, divide
from mse_lab.mse.intervals import LARGEST_LOG, Estimate, Statistic
from mse_lab.mse.moments import Moments, pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.reference_noise import gradient_noise


class Constants(NamedTuple):
    """c1, c2 and c3, and their like; arrays over samples of prompts.

    Attributes:
        between: c1 = E||g(X) - g||^2, what only more prompts reduce.
        oracle: c2 = E[T].
        pairs: c3 = E[zeta], the price of a baseline from the group.
        vanilla: E[A - ||g||^2], in the place of c2 for vanilla.
        best_constant: The same for a baseline b* of each prompt.
        gradient2: ||E g(X)||^2 of the population; that of the run's own prompts is
            `Pools.aggregate_norm2`, larger by c1/P on average.
    """

    between: Floats
    oracle: Floats
    pairs: Floats
    vanilla: Floats
    best_constant: Floats
    gradient2: Floats


Figure = Callable[[Constants], Floats]

# The others are squares, too, but estimated without bias as differences of larger ones.
POSITIVE = ("oracle", "pairs", "vanilla", "best_constant")


def _constants(pools: Pools, moments: Moments, counts_SP: Floats) -> Constants:
    """Evaluate the constants for samples in which prompt x stands counts[x] times."""
    size = counts_SP.sum(-1)
    own = pools.reference_product_P
    mean_own = counts_SP @ own / size
    # Pairs of different draws; two draws of one prompt have the product ||g(x)||^2.
    pairs = ((counts_SP @ pools.gradient_products_PP) * counts_SP).sum(-1) - counts_SP @ own
    gradient2 = pairs / (size * (size - 1))
    means = counts_SP / size[:, None]
    return Constants(
        between=mean_own - gradient2,
        oracle=means @ moments.trace_oracle,
        pairs=means @ moments.zeta,
        vanilla=means @ moments.constant_baseline(0.0),
        best_constant=means @ moments.trace_best,
        gradient2=gradient2,
    )


def measure_constants(pools: Pools) -> Constants:
    """Estimate the constants, each unbiased, of two prompts or more; floats (1,)."""
    return _constants(pools, pool_moments(pools), np.ones((1, pools.prompts)))


@dataclass(frozen=True)
class Population:
    """The distribution of prompts that a run's prompts, three or more, are drawn from."""

    pools: Pools

    @cached_property
    def constants(self) -> Constants:
        """The constants, floats (1,)."""
        return measure_constants(self.pools)

    @cached_property
    def without_one(self) -> Constants:
        """The constants with one prompt left out, (P,)."""
        others = 1 - np.eye(self.pools.prompts)
        return _constants(self.pools, pool_moments(self.pools), others)

    @cached_property
    def effective_prompts(self) -> float:
        """How many prompts carry c1 and c3: (sum w)^2 / sum w^2 (Kish), the smaller one.

        As degrees of freedom they cap those of every interval over prompts: the spread of
        a few prompts, one of which is far larger, cannot tell how large the next may be.
        """
        moments = pool_moments(self.pools)
        carried = (abs(moments.gradient2), abs(moments.zeta))
        shares = (one / one.max() for one in carried if one.any())
        counts = (one.sum() ** 2 / (one**2).sum() for one in shares)
        return max(1.0, float(min(counts, default=1.0)))

    def statistic(self, figure: Figure) -> Statistic:
        """Give a function of the constants with what each prompt contributes."""
        value = float(figure(self.constants).item())
        apart = (self.pools.prompts - 1) * (value - figure(self.without_one))
        return Statistic(value, {"prompts": apart[None]}, {})

    def estimate(self, figure: Figure, level: float) -> Estimate:
        """Give a function of the constants its interval, symmetric about it."""
        found = self.statistic(figure)
        return found.interval(level, most_degrees=self.effective_prompts)

    def estimate_positive(self, figure: Figure, level: float) -> Estimate:
        """Give one that is positive by nature its interval, symmetric in the logarithm.

        Where it, or what is left of it without a prompt, is not positive, as `estimate`.
        """
        if min(figure(self.constants).min(), figure(self.without_one).min()) <= 0:
            return self.estimate(figure, level)
        logs = self.estimate(lambda one: np.log(figure(one)), level)
        return Estimate(*(math.exp(min(end, LARGEST_LOG)) for end in logs))

    def constant(self, name: str, level: float) -> Estimate:
        """Give one of the constants its interval."""
        estimate = self.estimate_positive if name in POSITIVE else self.estimate
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
    """N x MSE at a budget of N completions; c1, a mean square, is 0 where negative.

    c1 G + c2 + c3 / (G-1) for `grpo`; for `vanilla`, `oracle` and `best-constant` c1 G and
    the constant of that name.
    """
    size = np.asarray(group_size, dtype=float)
    spread = np.maximum(constants.between, 0.0) * size
    if estimator == "grpo":
        return spread + constants.oracle + constants.pairs / (size - 1)
    return np.asarray(spread + getattr(constants, estimator.replace("-", "_")))
