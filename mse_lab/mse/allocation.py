"""Allocation: how many of N completions each of P prompts gets.

With G_x completions for prompt x, GRPO-type's MSE of the aggregate is

    (1/P^2) sum_x f_x(G_x),    f_x(G) = T_x / G + zeta_x / (G (G-1)),    sum_x G_x = N,

letters as in `moments.py`. Each f_x falls and is convex, so giving each completion to the
prompt whose f falls most is optimal (Fox 1966). A constant baseline has no zeta and may
have G_x = 1. No prompt is left out: the estimate would then be of the other prompts'
gradient, with the bias (1/P) sum of g(x) over those left out, whatever N.

Allocations are planned on one half of a run's completions and judged on the other, with
the run's reference, and the other way round: judged on its own completions, an allocation
that follows their noise looks too good. Over random prompts a prompt adds f_x(G_x) +
m (G_x - N/P), because the other prompts lack the part of the budget that it takes; m is how
much f falls on average for one more completion a prompt.
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.mse.intervals import Estimate, Statistic
from mse_lab.mse.moments import Moments, pool_moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.prompt_samples import mean_over_prompts

Sizes = NDArray[np.int64]

# The moments of prompts -> T and zeta of an estimator's law.
Law = Callable[[Moments], tuple[Floats, Floats]]

# The rule that all others are compared with, and the one that leaves prompts out by V.
UNIFORM, FILTERED = "uniform", "accuracy filter"

FILTER = (0.2, 0.8)  # Least and largest value of a prompt that an accuracy filter keeps.


def best_sizes(trace: Floats, zeta: Floats, budget: int, least: int = 2) -> Sizes:
    """Allocate a budget so that sum_x T_x/G_x + zeta_x/(G_x (G_x-1)) is least.

    Estimates below zero count as zero. The least G_x may be 1 where all zeta are 0.

    >>> best_sizes(np.array([1.0, 4.0]), np.zeros(2), 12).tolist()
    [4, 8]
    """
    count = len(trace)
    if budget < least * count:
        raise InputError(
            f"a budget of {budget} completions is less than {least} for each of {count} "
            f"prompts; give {least * count} or more"
        )
    terms = np.maximum([trace, zeta], 0).T.tolist()

    def next_fall(prompt: int, size: int) -> tuple[float, int, int]:
        """How much one more completion lowers a prompt's term, negated for the heap."""
        trace, zeta = terms[prompt]
        pairs = 2 * zeta / (size - 1) if zeta else 0.0
        return -(trace + pairs) / (size * (size + 1)), size, prompt

    sizes = np.full(count, least)
    heap = [next_fall(prompt, least) for prompt in range(count)]
    heapq.heapify(heap)
    for _ in range(budget - least * count):
        _, size, prompt = heap[0]
        sizes[prompt] = size + 1
        heapq.heapreplace(heap, next_fall(prompt, size + 1))
    return sizes


def grpo_law(moments: Moments) -> tuple[Floats, Floats]:
    """T and zeta."""
    return moments.trace_oracle, moments.zeta


def vanilla_law(moments: Moments) -> tuple[Floats, Floats]:
    """A - gamma for T, and 0 for zeta."""
    return moments.constant_baseline(0.0), 0 * moments.zeta


class Rule(NamedTuple):
    """How a budget is allocated, and the estimator that it is for."""

    plan: Law  # The law for which the allocation is the best.
    law: Law = grpo_law  # The estimator's law.
    least: int = 2  # The least G_x.

    def sizes(self, moments: Moments, budget: int) -> Sizes:
        """Allocate a budget."""
        return best_sizes(*self.plan(moments), budget, self.least)


def _uniform(moments: Moments) -> tuple[Floats, Floats]:
    ones = np.ones_like(moments.value)
    return ones, 0 * ones


def is_outside(value: Floats) -> NDArray[np.bool_]:
    """Whether an accuracy filter would leave a prompt out."""
    return (value < FILTER[0]) | (value > FILTER[1])


def _filtered(moments: Moments) -> tuple[Floats, Floats]:
    """Plan two completions for a prompt outside the filter, and share the rest alike."""
    outside = is_outside(moments.value)
    kept = np.asarray(outside if outside.all() else ~outside, dtype=np.float64)
    return kept, 0 * kept


RULES: Mapping[str, Rule] = {
    UNIFORM: Rule(_uniform),
    "best": Rule(grpo_law),
    # The best if all score norms were one: T and zeta are Var(Z) then, f = p(1-p)/(G-1)
    # (Neyman allocation; VIP, arXiv 2602.01601).
    "reward variance": Rule(lambda moments: (moments.variance, moments.variance)),
    FILTERED: Rule(_filtered),
    "vanilla, uniform": Rule(_uniform, vanilla_law, 1),
    "vanilla, best": Rule(vanilla_law, vanilla_law, 1),
}


def prompt_mse(moments: Moments, sizes: Sizes, law: Law = grpo_law) -> Floats:
    """MSE of each prompt with G_x completions, (P,)."""
    trace, zeta = law(moments)
    return trace / sizes + zeta / np.maximum(sizes * (sizes - 1.0), 1)


def dropped_bias2(pools: Pools, dropped_P: NDArray[np.bool_]) -> float:
    """||(1/P) sum of g(x) over prompts left out||^2, the squared bias, unbiased."""
    left_P = dropped_P / pools.prompts
    return float(left_P @ pools.gradient_products_PP @ left_P)


def _norm_moments(norms2_PN: Floats, rewards_PN: Floats) -> dict[str, Floats]:
    """S, B and A, by their names in `Moments`."""
    names = ("norm2", "reward_norm2", "reward2_norm2")
    return {
        name: (rewards_PN**power * norms2_PN).mean(-1) for power, name in enumerate(names)
    }


def plan_moments(norms2_PN: Floats, rewards_PN: Floats) -> Moments:
    """Moments of completions alone; ||g||^2, small beside the others, is left out."""
    variance = rewards_PN.var(-1, ddof=1)
    return Moments(
        **_norm_moments(norms2_PN, rewards_PN),
        value=rewards_PN.mean(-1),
        variance=variance,
        gradient2=0 * variance,
        value_variance=variance / rewards_PN.shape[-1],
    )


def _judge(rule: Rule, plan: Moments, judged: Moments, budget: int) -> Floats:
    """What each prompt adds to the mean MSE of a prompt, as one of a random sample."""
    prompts = len(plan.value)
    sizes, more = rule.sizes(plan, budget), rule.sizes(plan, budget + prompts)
    mse = prompt_mse(judged, sizes, rule.law)
    fall = (mse - prompt_mse(judged, more, rule.law)).mean()
    return np.asarray(mse + fall * (sizes - budget / prompts))


def halve(pools: Pools) -> list[tuple[Floats, Floats]]:
    """Give the norms^2 and rewards of either half of each prompt's completions."""
    count = pools.rewards_PN.shape[1] // 2
    parts = (slice(count), slice(count, None))
    return [(pools.norms2_PN[:, part], pools.rewards_PN[:, part]) for part in parts]


def judge_rules(
    pools: Pools, budget: int, rules: Mapping[str, Rule] = RULES
) -> dict[str, Statistic]:
    """Measure the mean MSE of a prompt by each rule, on completions that it has not seen.

    The statistics' independent groups are the prompts, so that ratios of two rules are
    paired. The intervals are of the two allocations of this run. They hold less often over
    runs: a plan may miss what a prompt does rarely, and few runs show it.
    """
    halves = halve(pools)
    whole = pool_moments(pools)
    totals = {name: np.zeros(pools.prompts) for name in rules}
    for seen, unseen in (halves, halves[::-1]):
        plan, judged = plan_moments(*seen), replace(whole, **_norm_moments(*unseen))
        for name, rule in rules.items():
            totals[name] += _judge(rule, plan, judged, budget) / 2
    return {name: mean_over_prompts(each_P) for name, each_P in totals.items()}


def measure_ratios(judged: Mapping[str, Statistic], level: float) -> dict[str, Estimate]:
    """Measure the MSE of each other rule's allocation over that of the uniform one."""
    others = {name: statistic for name, statistic in judged.items() if name != UNIFORM}
    return {
        name: statistic.ratio_to(judged[UNIFORM], level)
        for name, statistic in others.items()
    }
