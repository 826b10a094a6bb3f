"""Exact laws: a prompt's moments -> the MSE of an estimator at any group size G.

Four estimators have a law for any rewards (letters as in `moments.py`),

    baseline b      (A - 2 b B + b^2 S - ||g||^2) / G
    GRPO-type       T / G + zeta / (G (G-1))

with equality: g_hat_GRPO = g_hat_oracle - (1/(G(G-1))) sum_{i != j} W_i (Z_j - V), the two
parts are uncorrelated, and the second has mean squared norm zeta / (G(G-1)). This is
Theorem 2 of arXiv 2603.01162 with its O() made an equality.

For rewards in {0, 1} four numbers give the law of every reward-only, group-local estimator.
With p = V, m1 = E[||W||^2 | Z=1], m0 = E[||W||^2 | Z=0], gamma = ||g||^2 and c ~ Bin(G, p)
right completions in a group, the means of the scores of right and of wrong completions are
g/p and -g/(1-p). So with the sums s1(c), s0(c) of the weights of the right and of the wrong
ones, and q1(c), q0(c) of their squares,

    G^2 E||g_hat||^2 = E_c[q1] m1 + E_c[q0] m0
                       + gamma E_c[(s1^2 - q1)/p^2 + (s0^2 - q0)/(1-p)^2 - 2 s1 s0/(p(1-p))]
    E g_hat = slope g,   G slope = E_c[s1/p - s0/(1-p)].

Each division by p or 1-p cancels against the binomial probability, e.g.
P(c)/p = (G/c) P(c-1 of G-1), so that p = 0 and p = 1 need no limit. Sums, not single
weights, allow estimators that treat equal rewards unequally, such as the median.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import stats

from mse_lab.arrays import Floats
from mse_lab.estimators import Estimator
from mse_lab.estimators.groups import Groups
from mse_lab.mse.moments import Moments

# The MSE, by moments and G, of those that are unbiased whatever the rewards.
LAWS: dict[str, Callable[[Moments, int], Floats]] = {
    "vanilla": lambda one, size: one.constant_baseline(0.0) / size,
    "grpo": lambda one, size: one.trace_oracle / size + one.zeta / (size * (size - 1)),
    "oracle": lambda one, size: one.trace_oracle / size,
    "best-constant": lambda one, size: one.trace_best / size,
}


class Law(NamedTuple):
    """The law of an estimator whose mean is slope(x) g(x), for each prompt.

    Attributes:
        second: E||g_hat||^2.
        slope: <E g_hat, g> / ||g||^2; 1 for an unbiased estimator.
    """

    second: Floats
    slope: Floats


class _Sums(NamedTuple):
    """Sums over the weights of a group's right and wrong completions, by c = 0 ... G."""

    right: Floats
    wrong: Floats
    right_squares: Floats
    wrong_squares: Floats


class _Coefficients(NamedTuple):
    """E||g_hat||^2 = right B + wrong (S - B) + gradient gamma, and the slope."""

    right: Floats
    wrong: Floats
    gradient: Floats
    slope: Floats


@lru_cache(maxsize=1024)
def _weight_sums(estimator: Estimator, size: int) -> _Sums:
    """Weigh one group for each number of right completions."""
    rewards = np.tri(size + 1, size, -1)
    groups = Groups(
        rewards_PRG=rewards[None],
        lengths_PRG=np.ones((1, size + 1, size), dtype=np.int64),
        norms2_PRG=np.ones((1, size + 1, size)),
        value_P=np.zeros(1),
        best_constant_PR=np.zeros((1, size + 1)),
    )
    weights = estimator.weights(groups)[0]
    right, wrong = weights * rewards, weights * (1 - rewards)
    return _Sums(right.sum(-1), wrong.sum(-1), (right**2).sum(-1), (wrong**2).sum(-1))


@lru_cache(maxsize=4)
def _binomial(values: tuple[float, ...], trials: int) -> Floats:
    """P(c of so many trials) for each value, (values, trials + 1)."""
    counts = np.arange(trials + 1)
    return np.asarray(stats.binom.pmf(counts, trials, np.array(values)[:, None]))


def _coefficients(sums: _Sums, size: int, values: Floats) -> _Coefficients:
    """Average over c at each value; G >= 2."""
    c = np.arange(size + 1)
    first, second = (_binomial(tuple(values), size - dropped) for dropped in (1, 2))
    some, none = c[1:], size - c[:-1]
    pairs = size * (size - 1)
    both_right = (sums.right**2 - sums.right_squares)[2:] / (c[2:] * (c[2:] - 1))
    both_wrong = (sums.wrong**2 - sums.wrong_squares)[:-2] / (none[:-1] * (none[:-1] - 1))
    mixed = (sums.right * sums.wrong)[1:-1] / (c * (size - c))[1:-1]
    return _Coefficients(
        right=first @ (sums.right_squares[1:] / some) / size,
        wrong=first @ (sums.wrong_squares[:-1] / none) / size,
        gradient=second @ (both_right + both_wrong - 2 * mixed) * pairs / size**2,
        slope=first @ (sums.right[1:] / some - sums.wrong[:-1] / none),
    )


@dataclass(frozen=True)
class BinaryLaw:
    """The law of one estimator at one group size G >= 2, for rewards 0 and 1."""

    estimator: Estimator
    size: int

    def __call__(self, moments: Moments) -> Law:
        """Evaluate at the moments of prompts, of any shape (..., P)."""
        values, places = moments.distinct_values
        found = _coefficients(_weight_sums(self.estimator, self.size), self.size, values)
        at = _Coefficients(*(column[places] for column in found))
        right, wrong = moments.reward_norm2, moments.norm2 - moments.reward_norm2
        second = at.right * right + at.wrong * wrong + at.gradient * moments.gradient2
        return Law(second, at.slope)


def _scaled(name: str, size: int, factor: float) -> Callable[[Moments], Law]:
    """The law of an unbiased estimator times a factor."""

    def law(moments: Moments) -> Law:
        second = LAWS[name](moments, size) + moments.gradient2
        return Law(factor**2 * second, np.full_like(second, factor))

    return law


def find_law(
    estimator: Estimator, size: int, *, binary: bool
) -> Callable[[Moments], Law] | None:
    """Find an estimator's exact law at group size G, a function of the prompts' moments.

    None where it has none: its weights depend on lengths, norms, the value or other
    prompts, or rewards are not `binary`, all 0 or 1.
    """
    if estimator.name in LAWS:
        return _scaled(estimator.name, size, 1.0)
    if estimator.name == "centred":
        return _scaled("grpo", size, (size - 1) / size)
    four_numbers = estimator.reward_only and estimator.group_local
    if binary and size >= 2 and four_numbers and not estimator.knows_value:
        return BinaryLaw(estimator, size)
    return None
