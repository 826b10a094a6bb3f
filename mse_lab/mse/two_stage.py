"""Two-stage sampling: n of P prompts are measured, each by some of its completions.

If the prompts are the training set itself, all P of them, a mean over n that are drawn
without replacement has the variance (Cochran 1977, section 11.2)

    V = (1 - n/P) S^2 / n + (1/n) mean_x sigma_x^2,

with S^2 the variance between prompts, divisor P - 1, and sigma_x^2 that of the estimate of
one prompt x from its completions. The spread s^2 of the n estimates estimates the sum of
S^2 and mean sigma_x^2, so that

    V_hat = (1 - n/P) s^2 / n + (n/P) (1/n) mean_x sigma_hat_x^2.

If all are measured only the noise of completions is left, and V_hat is exact in the
prompts; if P is infinite V_hat is s^2 / n.

sigma_hat_x^2 = w_0 w_1 (y_0 - y_1)^2, from the halves of a prompt's completions, shares w_0
and w_1, of which each by itself gives an estimate y without bias. It is unbiased for a
mean; for ||g||^2, which is quadratic in completions, it is too large rather than too small
(Efron and Stein 1981).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.intervals import Statistic
from mse_lab.mse.moments import Moments, completion_moments
from mse_lab.mse.pools import Pools, without_diagonal
from mse_lab.mse.reference_noise import noise_of_pairs
from mse_lab.mse.samples import Samples


class Halves(NamedTuple):
    """What each half of the completions of a prompt says by itself; rows are halves."""

    moments: Moments  # (2, P).
    # Sum over the other prompts of <g(x), g(x')>, with g(x) by the half, (2, P).
    products_2P: Floats
    balance_P: Floats | float  # w_0 w_1.


def _split(weights: list[int]) -> list[list[int]]:
    """Split indices into two parts of nearly equal weight, the heaviest first.

    >>> _split([8, 8, 8, 12])
    [[3, 2], [0, 1]]
    """
    parts: list[list[int]] = [[], []]
    for index in sorted(range(len(weights)), key=lambda index: -weights[index]):
        min(parts, key=lambda part: sum(weights[one] for one in part)).append(index)
    return parts


def halves_of_samples(samples: Samples) -> list[Halves]:
    """Take a prompt's blocks in two parts; empty where one has a single block."""
    if min(map(len, samples.blocks)) < 2:
        return []
    splits = [_split([block.completions for block in each]) for each in samples.blocks]
    halves = [
        Samples.of(
            [each[at] for at in split[half]]
            for each, split in zip(samples.blocks, splits, strict=True)
        )
        for half in range(2)
    ]
    counts_2P = np.array([[len(one) for one in half.rewards] for half in halves])
    moments = {
        name: np.stack([getattr(half.moments, name) for half in halves])
        for name in vars(halves[0].moments)
        if name != "given_baseline"
    }
    return [
        Halves(
            type(samples.moments)(**moments),
            np.stack([samples.products_with_others(half) for half in halves]),
            counts_2P.prod(0) / counts_2P.sum(0) ** 2,
        )
    ]


def halves_of_pools(pools: Pools, whole: Moments) -> list[Halves]:
    """Take half A with half of the replicates, and half B with the others.

    ||g||^2 by all completions has no halves. It varies to first order by <r_A - r_B, rbar>,
    less as there are replicates beside the reference, and independently by its pairs.
    """
    each = completion_moments(pools)
    replicates, count = pools.rewards_PN.shape[-1], pools.reference_half
    middle, share = replicates // 2, 2 * count / (2 * count + replicates)
    sign_21 = np.array([[1.0], [-1.0]])

    def by_half(values_NP: Floats) -> Floats:
        return np.stack([values_NP[:middle].mean(0), values_NP[middle:].mean(0)])

    rewards = pools.reference_rewards_PN.reshape(pools.prompts, 2, count).swapaxes(0, 1)
    products_P = without_diagonal(pools.between_PP).sum(1)
    moved_P = without_diagonal(pools.halves_PP).sum(1) / 2
    alone_P = math.sqrt(share) * np.diag(pools.halves_PP)
    first_order = replace(
        whole,
        norm2=by_half(each.norm2),
        reward_norm2=by_half(each.reward_norm2),
        reward2_norm2=by_half(each.reward2_norm2),
        value=rewards.mean(-1),
        variance=rewards.var(-1, ddof=1),
        value_variance=rewards.var(-1, ddof=1) / count,
        value_trials=count,
        gradient2=whole.gradient2 + sign_21 * alone_P,
    )
    rest = replace(whole, gradient2=whole.gradient2 + sign_21 * noise_of_pairs(pools))
    return [
        Halves(first_order, products_P + sign_21 * moved_P, 0.25),
        Halves(rest, products_P + 0 * sign_21, 0.25),
    ]


Moment = Callable[[Moments], Floats]
C = TypeVar("C")


def half_by_half(
    halves: Sequence[Halves],
    moments: Moments,
    products_P: Floats,
    evaluate: Callable[[Callable[[Moment], Floats], Floats], C],
) -> list[tuple[C, Floats | float]]:
    """Evaluate a function of means over prompts where one is measured by half.

    Args:
        halves: What each half of a prompt's completions says, by source of noise.
        moments: Their moments, by all completions.
        products_P: Sum over the other prompts of <g(x), g(x')>.
        evaluate: Takes what averages a moment, and the average product of two prompts.

    Returns:
        For each source of noise, values of all prompts as they are, then with each prompt
        by its first half alone, then by its second, (1 + 2 P,); and w_0 w_1.
    """
    count = len(products_P)

    def sums(whole_P: Floats, half_2P: Floats, times: int = 1) -> Floats:
        apart_2P = np.broadcast_to(half_2P, (2, count)) - whole_P
        changed_2P = whole_P.sum() + times * apart_2P
        return np.concatenate([[whole_P.sum()], changed_2P.ravel()])

    def of(half: Halves) -> C:
        # A product is one of two prompts, and changes with either.
        pairs = sums(products_P, half.products_2P, times=2) / (count * (count - 1))
        return evaluate(
            lambda moment: sums(moment(moments), moment(half.moments)) / count, pairs
        )

    return [(of(half), half.balance_P) for half in halves]


def noises_of(
    figure: Callable[[C], Floats], halves: Sequence[tuple[C, Floats | float]]
) -> list[Floats]:
    """By how much the noise of each prompt's completions moves a figure of all, (P,).

    For each source of noise, from `half_by_half`; their squares are sigma_hat_x^2 / n^2.
    """
    noises = []
    for values, balance_P in halves:
        first_P, second_P = figure(values)[1:].reshape(2, -1)
        noises.append(np.asarray(np.sqrt(balance_P) * (first_P - second_P)))
    return noises


def in_two_stages(whole: Statistic, noises: Sequence[Floats], share: float) -> Statistic:
    """Give a figure of a share n/P of all prompts the variance V_hat.

    Args:
        whole: The figure, with the contribution of each prompt if P were infinite.
        noises: By how much the noise of completions moves it; if none, P counts as such.
        share: n/P.
    """
    if not noises:
        return whole
    groups = {"prompts": math.sqrt(max(1 - share, 0)) * whole.groups["prompts"]}
    for source, noise_P in enumerate(noises):
        either_P2 = np.stack([noise_P, -noise_P], axis=-1)
        groups[f"completions, {source}"] = math.sqrt(share) * either_P2
    return replace(whole, groups=groups)
