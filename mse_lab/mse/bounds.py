"""Bounds of the ratios of costs: what is shown of one group size over another.

The cost of GRPO-type at group size G and N completions a step is, up to a factor,

    cost(G) = c1 G + c2 + c3/(G-1) + N ||g||^2,

and that of any loss as in `loss.py`. The regret of G is cost(G) / cost(H) - 1 for the best
size H, which is not known. So regret(G) <= max over all H of the upper bound of
cost(G) / cost(H), less 1: whichever H is the best, that bound holds at its level, and no
correction for the number of sizes is needed.

The bounds of a ratio E z / E a are the q at which the mean of z - q a is less than t
standard errors from 0 (Fieller 1954), t Student's quantile at the degrees of freedom of the
prompts that carry c1 and c3. The standard errors are those of `prompt_table.py`; if prompts
are a set, those of `two_stage.py`.

**A finished run** is looked at once, at its level. **Few completions** are looked at again
and again while their number grows by half, until a bound decides. A test at the level
alpha / `LOOKS` at each of so many looks is false at any in at most a share alpha of runs.
Keep and Change are decided by one end each, and only one of them can be false, so the test
is one-sided. A bound must also hold, as if looked at once, if `UNSEEN` more prompts are
like the one that carries most of c1, for a rare kind of prompts may be among these too
seldom; if prompts are a set, as many as are left.

N ||g||^2, which all sizes of an unbiased loss share, moves every ratio towards 1. So a
ratio is also at most the larger of 1 and its bound at N = 0, whatever is known of it.

How early a large N is told depends on ||g||^2. On tiny/base, after 384 completions, that is
1.27 with a standard error of 0.51. At N = 1,024, E[cost(8) - 1.05 cost(4)] of GRPO-type is
-46 with a standard error of 26: 1.77 of them below 0, where a look takes 2.53 and a single
one at 5% would take 1.72. After 768 completions it is 2.23 of 2.53, after 960 3.12 of 2.47.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, Self

import numpy as np
from scipy import special

from mse_lab.arrays import Floats
from mse_lab.mse.prompt_table import Figure, PromptTable
from mse_lab.mse.two_stage import noises_of

# Prompts of a kind that P prompts may lack, at 95%: (1 - 3/P)^P = 5%.
UNSEEN = 3

SEEN = 0.95  # Share of draws that hold a prompt of a kind of which they tell the truth.

LOOKS = 8  # Up to the default budget, each at half as much again.

# The constants that the cost of GRPO-type is linear in; squares are not negative.
LINEAR = ("c1", "c2", "c3", "gradient2")
LEAST_4 = (0.0, -math.inf, -math.inf, 0.0)


class Rung(NamedTuple):
    """A step of the ladder: groups of a size, by the loss in use or a fitted baseline."""

    group_size: int
    fitted: bool = False


class Priced(NamedTuple):
    """What K rungs cost, over samples of prompts: sizes, then fitted baselines."""

    costs: Mapping[Rung, Floats]  # At N completions a step.
    completions: float  # N; 0 where it is unknown.
    # Whether the costs of sizes are c1 G + c2 + c3/(G-1) + N ||g||^2.
    linear: bool
    limit: Mapping[Rung, Floats] | None = None  # At N = 0, where all are unbiased.

    @property
    def sizes(self) -> list[int]:
        """The group sizes with the loss in use."""
        return [rung.group_size for rung in self.costs if not rung.fitted]


# Upper bounds (K, K) of the cost of each rung over that of each other one.
Bound = Callable[[Priced], Floats]


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


class _Seen(NamedTuple):
    """M figures of n prompts, and how they vary; n may include prompts not drawn."""

    values_M: Floats
    apart_PM: Floats  # Each prompt's contributions, less the mean.
    least_M: tuple[float, ...] | float = -math.inf  # The least that each can be.
    share: float = 0.0  # n/P where V_hat of `two_stage.py` is known, else 0.
    noise_MM: Floats | float = 0.0  # (1/n) mean_x sigma_hat_x^2 of that.

    @classmethod
    def of_constants(cls, table: PromptTable) -> Self:
        """Take c1, c2, c3 and ||g||^2."""
        figures = [attrgetter(name) for name in LINEAR]
        halves = table.half_samples
        noises = [np.concatenate([*noises_of(one, halves), [0.0]]) for one in figures]
        noise_MM = np.array(noises) @ np.transpose(noises)
        seen = cls.of_figures(table, figures)
        return seen._replace(least_M=LEAST_4, share=table.share, noise_MM=noise_MM)

    @classmethod
    def of_figures(cls, table: PromptTable, figures: Sequence[Figure]) -> Self:
        """Take any figures, such as costs of a loss; a set counts as drawn from more."""
        statistics = [table.contributions(figure) for figure in figures]
        return cls(
            np.array([statistic.value for statistic in statistics]),
            np.stack([one.groups["prompts"][0] for one in statistics], axis=-1),
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

    def ratio_bounds(self, factors_MK: Floats, reach: float) -> Floats:
        """Bound from above the ratio of each of K costs to each other one, (K, K).

        The bound of cost i over cost j is at [i, j]; infinite where there is none. `reach`
        is in standard errors.
        """
        values_K = np.maximum(self.values_M, self.least_M) @ factors_MK
        between_MM = (1 - self.share) * np.cov(self.apart_PM.T) / len(self.apart_PM)
        variance_MM = between_MM + self.share * self.noise_MM
        reach2_KK = reach**2 * factors_MK.T @ variance_MM @ factors_MK
        # The q with (E z - q E a)^2 <= reach^2 Var(z - q a) lie between two roots.
        cross_KK = np.outer(values_K, values_K) - reach2_KK
        below_K = values_K**2 - np.diag(reach2_KK)
        root_KK = np.sqrt(np.maximum(cross_KK**2 - np.outer(below_K, below_K), 0))
        bounded_K = (below_K > 0) & (values_K > 0)
        ratios_KK = (cross_KK + root_KK) / np.where(bounded_K, below_K, 1)
        return np.where(bounded_K, ratios_KK, math.inf)


def _factors(sizes: Sequence[int], completions: float) -> Floats:
    """What c1, c2, c3 and ||g||^2 add to the cost of each size of GRPO-type, (4, K)."""
    costs = np.array(sizes, dtype=float)
    ones = np.ones_like(costs)
    return np.stack([costs, ones, 1 / (costs - 1), completions * ones])


def heaviest(table: PromptTable) -> int:
    """The prompt that carries most of c1."""
    carried = table.contributions(attrgetter("c1")).groups["prompts"][0]
    return int(np.argmax(carried))


def bound_ratios(
    table: PromptTable, level: float, *, looked: bool, prompts: int | None = None
) -> Bound:
    """Make the bounds of ratios by the prompts at hand.

    Args:
        table: The prompts.
        level: In how many runs a bound holds.
        looked: Whether they are looked at until a bound decides, else once.
        prompts: As many prompts as that would narrow them.
    """
    more = prompts / table.prompts if prompts else 1.0
    degrees = more * min(table.effective_prompts, table.prompts - 1)
    left = int(min(UNSEEN, table.size - table.prompts)) if looked else 0

    def reach(tail: float) -> float:
        """Standard errors beyond which Student's distribution has a tail."""
        return float(-special.stdtrit(degrees, tail)) / math.sqrt(more)

    def worst(seen: _Seen, factors_MK: Floats) -> Floats:
        first = reach((1 - level) / (LOOKS if looked else 2))
        upper_KK = seen.ratio_bounds(factors_MK, first)
        if not left:
            return upper_KK
        heavier = seen.with_more(left, heaviest(table))
        return np.maximum(upper_KK, heavier.ratio_bounds(factors_MK, reach(1 - level)))

    def by_costs(costs: Mapping[Rung, Floats]) -> Floats:
        return worst(_Seen.of_figures(table, [*costs.values()]), np.eye(len(costs)))

    def by_constants(priced: Priced) -> Floats:
        seen = _Seen.of_constants(table)
        upper_KK = worst(seen, _factors(priced.sizes, priced.completions))
        if not priced.completions:
            return upper_KK
        return _limited(upper_KK, worst(seen, _factors(priced.sizes, 0.0)))

    def bound(priced: Priced) -> Floats:
        count = len(priced.sizes)
        if priced.linear and count == len(priced.costs):
            return by_constants(priced)
        upper_KK = by_costs(priced.costs)
        if priced.limit is not None:
            upper_KK = _limited(upper_KK, by_costs(priced.limit))
        if priced.linear:
            # Sizes among themselves, by what is known of these alone.
            upper_KK[:count, :count] = by_constants(priced)
        return upper_KK

    return bound


def _limited(upper_KK: Floats, limit_KK: Floats) -> Floats:
    """Bound ratios by those at N = 0, too."""
    return np.minimum(upper_KK, np.maximum(limit_KK, 1.0))
