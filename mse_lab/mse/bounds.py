"""Bounds of the ratios of costs: what is shown of one group size over another.

The cost of GRPO-type at group size G and N completions a step is, up to a factor,

    cost(G) = c1 G + c2 + c3/(G-1) + N ||g||^2,

and that of any loss as in `loss.py`. The regret of G is cost(G) / cost(H) - 1 for the best
size H, which is not known. So regret(G) <= max over all H of the upper bound of
cost(G) / cost(H), less 1: whichever H is the best, that bound holds at its level, and no
correction for the number of sizes is needed.

**A finished run** bounds each ratio by the interval of its logarithm.

**Few completions**, looked at again and again while their number grows, are bounded by an
asymptotic confidence sequence, which holds at all looks together: with sd the standard
deviation of a quantity over the first t prompts, its mean over all prompts differs from its
mean over these by at most

    sd sqrt(2 (t r + 1) / (t^2 r) log(sqrt(t r + 1) / alpha))

at every t in a share 1 - alpha of runs (Waudby-Smith et al., arXiv 2103.06476). The bounds
of a ratio of costs E z / E a are the q between which the sequence of z - q a contains 0. A
bound must also hold if `UNSEEN` more prompts are like the one that carries most of c1,
for a rare kind of prompts may be among these too seldom; if prompts are a set, as many as
are left.

If the prompts are a set of P, drawn without replacement, V of `two_stage.py` takes the
place of sd^2 / t. The estimates of two looks have the covariance V of the later one, as
means of independent prompts have: further prompts of the set and further completions only
average more. So 1/V is the sequence's time: t = S^2 / V, counted in prompts.

N ||g||^2, which all sizes of an unbiased loss share, moves every ratio towards 1. So a
ratio is also at most the larger of 1 and its bound at N = 0, whatever is known of it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from operator import attrgetter
from typing import NamedTuple, Self

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.mse.intervals import LARGEST_LOG, Statistic
from mse_lab.mse.loss import Costs
from mse_lab.mse.prompt_table import PromptTable
from mse_lab.mse.two_stage import noises_of

# Prompts of a kind that P prompts may lack, at 95%: (1 - 3/P)^P = 5%.
UNSEEN = 3

SEEN = 0.95  # Share of draws that hold a prompt of a kind of which they tell the truth.

LONGEST = 1e12  # The most time, in prompts: where hardly any noise is left.

RATE = 0.18  # r of the sequence, with which it is narrowest near 50 prompts.

# The constants that the cost of GRPO-type is linear in; squares are not negative.
LINEAR = ("c1", "c2", "c3", "gradient2")
LEAST_4 = (0.0, -math.inf, -math.inf, 0.0)


class Priced(NamedTuple):
    """What K group sizes cost, over samples of prompts."""

    costs: Costs  # At N completions a step.
    completions: float  # N; 0 where it is unknown.
    # Whether the costs are c1 G + c2 + c3/(G-1) + N ||g||^2.
    linear: bool


# Upper bounds (K, K) of the cost of each size over that of each other one.
Bound = Callable[[Priced], Floats]


def sequence_radius(count: Floats | float, level: float) -> Floats | float:
    """Compute half the width of the confidence sequence of a mean, in standard deviations.

    `count` is t; it need not be whole.

    >>> round(float(sequence_radius(54, 0.95)), 3)
    0.413
    """
    scaled = count * RATE + 1
    square = 2 * scaled / (count**2 * RATE) * np.log(np.sqrt(scaled) / (1 - level))
    return np.asarray(np.sqrt(square))


def rarest_seen(prompts: int, *, looked: bool = True) -> int:
    """How rare a kind of prompts may be, 1 in n, of which P prompts tell the truth.

    A bound that is looked at until it is small holds for kinds of which at least one prompt
    is drawn in 95% of draws; a finished run's, by its own spread alone, for those of which
    twice as many are expected: `tests/README.md` has both.

    >>> rarest_seen(48), rarest_seen(2), rarest_seen(48, looked=False)
    (16, 1, 8)
    """
    return max(prompts // (UNSEEN if looked else 2 * UNSEEN), 1)


def fewest_seen(measured: int, prompts: int) -> int:
    """How many prompts of a set, at least, of which n drawn at random hold one in 95%.

    >>> fewest_seen(18, 36), fewest_seen(36, 36)
    (5, 1)
    """
    missed, fewest = 1.0, 0
    while missed > 1 - SEEN:
        missed *= (prompts - measured - fewest) / (prompts - fewest)
        fewest += 1
    return fewest


def _towards_one(upper_KK: Floats, limit_KK: Floats) -> Floats:
    """Bound by the limit N = 0 as well: sharing N ||g||^2 moves a ratio towards 1."""
    return np.minimum(upper_KK, np.maximum(limit_KK, 1.0))


def bound_by_intervals(
    table: PromptTable, level: float, prompts: int | None = None
) -> Bound:
    """Make the bounds of a finished run: intervals of the ratios' logarithms.

    With `prompts` as many prompts as that would narrow them.
    """
    tiny, most = np.finfo(float).tiny, table.effective_prompts
    narrower = math.sqrt(table.prompts / prompts) if prompts else 1.0

    def log_of(cost: Floats) -> Statistic:
        # A cost that is not positive becomes tiny, so that ratios to it have no bound.
        log = table.statistic(lambda _, one: np.log(np.maximum(one, tiny)), cost)
        parts = {run: narrower * part for run, part in log.groups.items()}
        return replace(log, groups=parts)

    def of(costs: Sequence[Floats]) -> Floats:
        return ratios_of_intervals([log_of(cost) for cost in costs], level, most)

    def bound(priced: Priced) -> Floats:
        upper_KK = of([*priced.costs.values()])
        if not (priced.linear and priced.completions):
            return upper_KK
        factors_4K = _factors([*priced.costs], 0.0)
        constants = np.stack([getattr(table.samples, name) for name in LINEAR])
        constants[0] -= min(constants[0, 0], 0.0)
        return _towards_one(upper_KK, of([*(factors_4K.T @ constants)]))

    return bound


def ratios_of_intervals(logs: Sequence[Statistic], level: float, most: float) -> Floats:
    """Bound from above the ratio of each of K costs to each other one, (K, K).

    Args:
        logs: The logarithms of the costs.
        level: Coverage of each ratio's interval.
        most: The most degrees of freedom, those of the prompts that carry the costs.
    """
    upper_KK = np.zeros((len(logs), len(logs)))
    for one, other in combinations(range(len(logs)), 2):
        _, low, high = (logs[one] - logs[other]).interval(level, most_degrees=most)
        upper_KK[one, other], upper_KK[other, one] = high, -low
    return np.where(
        upper_KK < LARGEST_LOG, np.exp(np.minimum(upper_KK, LARGEST_LOG)), math.inf
    )


class _Seen(NamedTuple):
    """M figures of n prompts, and how they vary; n may include prompts not drawn."""

    values_M: Floats
    apart_PM: Floats  # Each prompt's contributions, less the mean.
    least_M: tuple[float, ...]  # The least that each can be.
    share: float  # n/P where V_hat of `two_stage.py` is known, else 0.
    noise_MM: Floats  # (1/n) mean_x sigma_hat_x^2 of that.

    @classmethod
    def of_constants(cls, table: PromptTable) -> Self:
        """Take c1, c2, c3 and ||g||^2."""
        figures = [attrgetter(name) for name in LINEAR]
        found = [table.contributions(figure) for figure in figures]
        halves = table.half_samples
        noises = [np.concatenate([*noises_of(one, halves), [0.0]]) for one in figures]
        return cls(
            np.array([statistic.value for statistic in found]),
            np.stack([statistic.groups["prompts"][0] for statistic in found], axis=-1),
            LEAST_4,
            table.share,
            np.array(noises) @ np.transpose(noises),
        )

    @classmethod
    def of_costs(cls, table: PromptTable, costs: Costs) -> Self:
        """Take the costs of any loss; a set counts as drawn from more."""
        found = [table.contributions(lambda _, one: one, cost) for cost in costs.values()]
        count = len(found)
        return cls(
            np.array([statistic.value for statistic in found]),
            np.stack([one.groups["prompts"][0] for one in found], axis=-1),
            (-math.inf,) * count,
            0.0,
            np.zeros((count, count)),
        )

    def with_more(self, count: int, prompt: int) -> Self:
        """Add prompts like one of them."""
        prompts = len(self.apart_PM)
        more = np.vstack([self.apart_PM, np.tile(self.apart_PM[prompt], (count, 1))])
        return self._replace(
            values_M=self.values_M + more.mean(0),
            apart_PM=more - more.mean(0),
            share=self.share * len(more) / prompts,
        )

    def ratio_bounds(self, factors_MK: Floats, level: float, more: float = 1.0) -> Floats:
        """Bound from above the ratio of each of K costs to each other one, (K, K).

        The bound of cost i over cost j is at [i, j]; infinite where there is none. `more`
        is how many times as many prompts there would be.
        """
        values_K = np.maximum(self.values_M, self.least_M) @ factors_MK
        count = len(self.apart_PM)
        spread_MM = np.cov(self.apart_PM.T)
        variance_MM = (1 - self.share) * spread_MM / count + self.share * self.noise_MM
        variance_MM, count = variance_MM / more, round(more * count)
        spread, variance = (
            factors_MK.T @ of @ factors_MK for of in (spread_MM, variance_MM)
        )
        time = _time(spread, variance, values_K) if self.share else count
        time = np.clip(time, count, LONGEST)
        # The q with (E z - q E a)^2 <= reach^2 Var(z - q a) lie between two roots.
        reach2 = time * sequence_radius(time, level) ** 2
        cross, own = np.outer(values_K, values_K) - reach2 * variance, np.diag(variance)
        above = values_K[:, None] ** 2 - reach2 * own[:, None]
        below = values_K**2 - reach2 * own
        root = np.sqrt(np.maximum(cross**2 - above * below, 0))
        bounded = (below > 0) & (values_K > 0)
        return np.where(bounded, (cross + root) / np.where(bounded, below, 1), math.inf)


def _time(spread_KK: Floats, variance_KK: Floats, values_K: Floats) -> Floats:
    """How many prompts of a distribution tell each ratio as well, (K, K): S^2 / V."""
    scale = np.outer(values_K, values_K)
    between, error = (
        np.diag(of)[:, None] + np.diag(of) - 2 * of
        for of in (divide(spread_KK, scale), divide(variance_KK, scale))
    )
    return divide(between, error)


def _factors(sizes: Sequence[int], completions: float) -> Floats:
    """What c1, c2, c3 and ||g||^2 add to the cost of each size of GRPO-type, (4, K)."""
    costs = np.array(sizes, dtype=float)
    ones = np.ones_like(costs)
    return np.stack([costs, ones, 1 / (costs - 1), completions * ones])


def heaviest(table: PromptTable) -> int:
    """The prompt that carries most of c1."""
    carried = table.contributions(attrgetter("c1")).groups["prompts"][0]
    return int(np.argmax(carried))


def bound_by_sequence(
    table: PromptTable, level: float, prompts: int | None = None
) -> Bound:
    """Make the bounds that hold at all looks together.

    With `prompts` as many prompts as that would narrow them.
    """
    more = prompts / table.prompts if prompts else 1.0
    left = int(min(UNSEEN, table.size - table.prompts))

    def worst(seen: _Seen, factors_MK: Floats) -> Floats:
        cases = [seen, seen.with_more(left, heaviest(table))] if left else [seen]
        return np.max([one.ratio_bounds(factors_MK, level, more) for one in cases], axis=0)

    def bound(priced: Priced) -> Floats:
        sizes = [*priced.costs]
        if not priced.linear:
            return worst(_Seen.of_costs(table, priced.costs), np.eye(len(sizes)))
        seen = _Seen.of_constants(table)
        upper_KK = worst(seen, _factors(sizes, priced.completions))
        if not priced.completions:
            return upper_KK
        return _towards_one(upper_KK, worst(seen, _factors(sizes, 0.0)))

    return bound
