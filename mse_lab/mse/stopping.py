"""Stopping: whether few completions of some prompts are enough for an answer.

From look to look the number of prompts grows by half. Two rules end the measurement, and
each keeps its level at the look at which it stops:

- **The decision.** The regret of the recommended size is bounded by an asymptotic
  confidence sequence, which holds at all looks together: with sd the standard deviation
  of a quantity over the first t prompts, its mean over all prompts differs from its mean
  over these by at most

      sd sqrt(2 (t r + 1) / (t^2 r) log(sqrt(t r + 1) / alpha))

  at every t in a share 1 - alpha of runs (Waudby-Smith et al., arXiv 2103.06476). The
  bounds of a ratio of costs E z / E a are the q between which the sequence of z - q a
  contains 0. A bound must also hold if `UNSEEN` more prompts are like the one that carries
  most of c1, for a rare kind of prompts may be among these too seldom; if prompts are a
  set, as many as are left.
- **Precision.** The interval of log(G*-1) is narrow enough. An interval by Student's t
  keeps its level when a run stops for its width (Chow and Robbins 1965).

If the prompts are a set of P, drawn without replacement, V of `two_stage.py` takes the
place of sd^2 / t. The estimates of two looks have the covariance V of the later one, as
means of independent prompts have: further prompts of the set and further completions only
average more. So 1/V is the sequence's time: t = S^2 / V, counted in prompts.

Neither rule stops where too few prompts carry c1 and c3. Of kinds of prompts that are not
among these nothing is known, and what is told holds for the others (`rarest_seen`).
"""

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Literal, NamedTuple, Self

import numpy as np

from mse_lab.arrays import Floats, divide
from mse_lab.mse.budget import Population
from mse_lab.mse.own_loss import Bound, Costs
from mse_lab.mse.regret import COMPARED
from mse_lab.mse.two_stage import noises_of

Stopped = Literal["regret", "width", "budget", "exhausted"]

# Half-width of the interval of log(G*-1) that is narrow enough: a factor of 1.4.
WIDTH = 0.35

# Prompts that must carry c1 and c3: the spread of fewer says little of the next one.
LEAST_CARRIERS = 10

# Prompts of a kind that P prompts may lack, at 95%: (1 - 3/P)^P = 5%.
UNSEEN = 3

SEEN = 0.95  # Share of draws that hold a prompt of a kind of which they tell the truth.

LONGEST = 1e12  # The most time, in prompts: where hardly any noise is left.

RATE = 0.18  # r of the sequence, with which it is narrowest near 50 prompts.


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


class _Costs(NamedTuple):
    """c1, c2 and c3 of n prompts, and how they vary; n may include prompts not drawn."""

    values_3: Floats
    apart_P3: Floats  # Each prompt's contributions, less the mean.
    share: float  # n/P where V_hat of `two_stage.py` is known, else 0.
    noise_33: Floats  # (1/n) mean_x sigma_hat_x^2 of that.
    heaviest: int  # The prompt that carries most of c1.

    @classmethod
    def of(cls, population: Population) -> Self:
        """Take the constants of a population's prompts."""
        figures = [attrgetter(name) for name in ("c1", "c2", "c3")]
        found = [population.contributions(figure) for figure in figures]
        halves = population.half_samples
        noises = [np.concatenate([*noises_of(one, halves), [0.0]]) for one in figures]
        return cls(
            np.array([statistic.value for statistic in found]),
            np.stack([statistic.groups["prompts"][0] for statistic in found], axis=-1),
            population.share,
            np.array(noises) @ np.transpose(noises),
            int(np.argmax(found[0].groups["prompts"][0])),
        )

    @classmethod
    def of_loss(cls, population: Population, costs: Costs) -> Self:
        """Take the costs of any loss for c1 to c3; a set counts as drawn from more."""
        found = [
            population.contributions(lambda _, one: one, cost) for cost in costs.values()
        ]
        count = len(found)
        return cls.of(population)._replace(
            values_3=np.array([statistic.value for statistic in found]),
            apart_P3=np.stack([one.groups["prompts"][0] for one in found], axis=-1),
            share=0.0,
            noise_33=np.zeros((count, count)),
        )

    def with_more(self, count: int) -> Self:
        """Add prompts like the one that carries most of c1."""
        prompts, heaviest = len(self.apart_P3), self.heaviest
        more = np.vstack([self.apart_P3, np.tile(self.apart_P3[heaviest], (count, 1))])
        return self._replace(
            values_3=self.values_3 + more.mean(0),
            apart_P3=more - more.mean(0),
            share=self.share * len(more) / prompts,
        )

    def ratio_bounds(self, factors_3K: Floats, level: float, more: float = 1.0) -> Floats:
        """Bound from above the ratio of each of K costs to each other one, (K, K).

        The bound of cost i over cost j is at [i, j]; infinite where there is none. `more`
        is how many times as many prompts there would be.
        """
        least = [0.0, *[-math.inf] * (len(self.values_3) - 1)]
        values_K = np.maximum(self.values_3, least) @ factors_3K
        count = len(self.apart_P3)
        spread_33 = np.cov(self.apart_P3.T)
        variance_33 = (1 - self.share) * spread_33 / count + self.share * self.noise_33
        variance_33, count = variance_33 / more, round(more * count)
        spread, variance = (
            factors_3K.T @ of @ factors_3K for of in (spread_33, variance_33)
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


def _factors(sizes: Sequence[int]) -> Floats:
    """What c1, c2 and c3 add to the cost of each size of GRPO-type, (3, K)."""
    costs = np.array(sizes, dtype=float)
    return np.stack([costs, np.ones_like(costs), 1 / (costs - 1)])


def _worst(
    seen: _Costs, population: Population, factors: Floats, level: float, more: float = 1.0
) -> Floats:
    """Bound ratios of costs, (K, K), also if prompts not seen are like the heaviest."""
    left = int(min(UNSEEN, population.size - len(seen.apart_P3)))
    cases = [seen, seen.with_more(left)] if left else [seen]
    return np.max([case.ratio_bounds(factors, level, more) for case in cases], axis=0)


def sequence_bounds(population: Population, level: float) -> dict[int, float]:
    """Bound the regret of group sizes of GRPO-type, whose costs are sums of c1 to c3.

    Any two bounds hold at all looks together.
    """
    upper_KK = _worst(_Costs.of(population), population, _factors(COMPARED), level)
    return dict(zip(COMPARED, (upper_KK.max(1) - 1).tolist(), strict=True))


def bound_by_sequence(
    population: Population, level: float, prompts: int | None = None
) -> Bound:
    """Make the bounds that hold at all looks together, of costs of any loss.

    With `prompts` as many prompts as that would narrow them.
    """
    more = prompts / population.pools.prompts if prompts else 1.0

    def bound(costs: Costs, own: bool) -> Floats:
        if own:
            seen, factors = _Costs.of_loss(population, costs), np.eye(len(costs))
        else:
            seen, factors = _Costs.of(population), _factors([*costs])
        return _worst(seen, population, factors, level, more)

    return bound


def log_width(population: Population, level: float) -> float:
    """Half-width of the interval of log(G*-1); infinite where it has no end."""
    _, low, high = population.best_group_size(level)
    return math.log((high - 1) / (low - 1)) / 2 if 1 < low < high < math.inf else math.inf
