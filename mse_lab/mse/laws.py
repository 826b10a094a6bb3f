"""Exact laws: a prompt's moments -> the MSE of an estimator at any group size G.

Some estimators have a law for any rewards (letters as in `moments.py`),

    baseline b      (A - 2 b B + b^2 S - ||g||^2) / G
    affine          that of b = alpha + lambda V, and lambda^2 zeta / (G (G-1))

with equality: with the mean m_i of the others' rewards in the place of V, g_hat differs by
-(lambda/(G(G-1))) sum_{i != j} W_i (Z_j - V), which is not correlated with the rest, and
has the mean squared norm lambda^2 zeta / (G(G-1)). GRPO-type is alpha = 0 and lambda = 1,
T / G + zeta / (G(G-1)): Theorem 2 of arXiv 2603.01162 with its O() made an equality.

For rewards of two values, made 0 and 1 by a shift and a factor, four numbers give the law
of every reward-only, group-local estimator.
With p = V, m1 = E[||W||^2 | Z=1], m0 = E[||W||^2 | Z=0], gamma = ||g||^2 and c ~ Bin(G, p)
right completions in a group, the means of the scores of right and of wrong completions are
g/p and -g/(1-p). So with the sums s1(c), s0(c) of the weights of the right and of the wrong
ones, and q1(c), q0(c) of their squares,

    G^2 E||g_hat||^2 = E_c[q1] m1 + E_c[q0] m0
                       + gamma E_c[(s1^2 - q1)/p^2 + (s0^2 - q0)/(1-p)^2 - 2 s1 s0/(p(1-p))]
    E g_hat = slope g,   G slope = E_c[s1/p - s0/(1-p)].

Each division by p or 1-p cancels against the binomial probability, e.g.
P(c)/p = (G/c) P(c-1 of G-1), so that p = 0 and p = 1 need no limit. Sums instead of single
weights admit estimators that treat equal rewards unequally, such as the median.

These are polynomials in p. If p is estimated by k right ones among N completions, the
polynomial at k/N is biased, the more the rarer right completions are. Its mean over groups
drawn from the N without replacement has no bias: hypergeometric probabilities replace the
binomial ones, which needs as many completions as the polynomial's degree. A polynomial may
be multiplied by a reference of the same completions. That is itself a polynomial in k times
the difference of the mean scores, so it uses up completions, and the groups are drawn from
the others: <r_A, r_B>, with p^2 (1-p)^2, uses two right and two wrong ones, and rbar, with
p (1-p), one of each. In one pool p m1 and (1-p) m0 come from the same completions, too, and
use a right or a wrong one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from scipy import stats

from mse_lab.arrays import Floats
from mse_lab.estimators import Estimator
from mse_lab.estimators.groups import Groups
from mse_lab.mse.moments import Moments, OnePoolMoments

# Completions up to which coefficients are tabulated for all counts of right ones.
MOST_COUNTS = 2048


def affine_law(
    alpha: Floats | float, factor: Floats | float, moments: Moments, size: int
) -> Floats:
    """Evaluate the MSE of w_i = Z_i - alpha - factor m_i, m_i the mean of the others.

    `factor` is lambda, at G = 1 zero; the two may be other numbers for each prompt.
    """
    mse = moments.affine_baseline(alpha, factor) / size
    return mse if size == 1 else mse + factor**2 * moments.zeta / (size * (size - 1))


# Moments and G -> the MSE, of estimators that are unbiased whatever the rewards.
UnbiasedLaw = Callable[[Moments, int], Floats]

LAWS: dict[str, UnbiasedLaw] = {
    "vanilla": partial(affine_law, 0.0, 0.0),
    "grpo": partial(affine_law, 0.0, 1.0),
    "oracle": lambda one, size: one.trace_oracle / size,
    "best-constant": lambda one, size: one.trace_best / size,
}


def unbiased_law(estimator: Estimator) -> UnbiasedLaw | None:
    """Find the MSE of an estimator that is unbiased whatever the rewards, if known."""
    if estimator.affine is not None:
        return partial(affine_law, *estimator.affine)
    return LAWS.get(estimator.name)


# Completions beyond those of a group that a law takes: a polynomial's degree is G, and what
# multiplies it uses up three.
MORE_THAN_A_GROUP = 3

# The reward of a wrong completion, and of a right one.
WrongRight = tuple[float, float]
WRONG_RIGHT = (0.0, 1.0)


class Law(NamedTuple):
    """The law of an estimator whose mean is slope(x) g(x), for each prompt."""

    second: Floats  # E||g_hat||^2.
    # <E g_hat, g> / ||g||^2, without bias times rbar; 1 for an unbiased estimator.
    slope: Floats
    slope_alone: Floats  # The same, without bias times <r_A, r_B>, for a prompt by itself.


class _Sums(NamedTuple):
    """Sums over the weights of a group's right and wrong completions, by c = 0 ... G."""

    right: Floats
    wrong: Floats
    right_squares: Floats
    wrong_squares: Floats


class _Coefficients(NamedTuple):
    """E||g_hat||^2 = right B + wrong (S - B) + gradient gamma, and the slopes."""

    right: Floats
    wrong: Floats
    gradient: Floats
    slope: Floats
    slope_alone: Floats


@lru_cache(maxsize=1024)
def _weight_sums(estimator: Estimator, size: int, values: WrongRight) -> _Sums:
    rewards = np.tri(size + 1, size, -1)
    groups = Groups.of_rewards(np.where(rewards, values[1], values[0]))
    weights = estimator.weights(groups)[0]
    right, wrong = weights * rewards, weights * (1 - rewards)
    return _Sums(right.sum(-1), wrong.sum(-1), (right**2).sum(-1), (wrong**2).sum(-1))


# Numbers of draws, and of right and wrong completions that are used up before -> P(c of the
# draws are right) by the value, (values, draws + 1).
_Chances = Callable[[int, int, int], Floats]


def _independent(values: Floats) -> _Chances:
    """Compute probabilities where V is known: binomial, whatever is used up."""
    by_draws = lru_cache(
        lambda draws: stats.binom.pmf(np.arange(draws + 1), draws, values[:, None])
    )
    return lambda draws, *_: np.asarray(by_draws(draws))


@lru_cache(maxsize=64)
def _hypergeometric(
    trials: int, counts: Sequence[int], draws: int, right: int, wrong: int
) -> Floats:
    """Compute probabilities by how many of `trials` completions are right."""
    left = trials - right - wrong
    some = np.clip(np.array(counts) - right, 0, left)[:, None]
    # Not pmf: of 1,024 completions it takes a thousand times as long.
    return np.exp(stats.hypergeom.logpmf(np.arange(draws + 1), left, some, draws))


def _coefficients(
    sums: _Sums, size: int, chances: _Chances, used: int = 0
) -> _Coefficients:
    """Average over c, for G >= 2; p m1 and (1-p) m0 use up `used` completions each."""
    c = np.arange(size + 1)
    some, none = c[1:], size - c[:-1]
    pairs = size * (size - 1)
    both_right = (sums.right**2 - sums.right_squares)[2:] / (c[2:] * (c[2:] - 1))
    both_wrong = (sums.wrong**2 - sums.wrong_squares)[:-2] / (none[:-1] * (none[:-1] - 1))
    mixed = (sums.right * sums.wrong)[1:-1] / (c * (size - c))[1:-1]
    products = (both_right + both_wrong - 2 * mixed) * pairs / size**2
    slopes = sums.right[1:] / some - sums.wrong[:-1] / none
    return _Coefficients(
        right=chances(size - 1, used, 0) @ (sums.right_squares[1:] / some) / size,
        wrong=chances(size - 1, 0, used) @ (sums.wrong_squares[:-1] / none) / size,
        gradient=chances(size - 2, 2, 2) @ products,
        slope=chances(size - 1, 1, 1) @ slopes,
        slope_alone=chances(size - 1, 2, 2) @ slopes,
    )


@lru_cache(maxsize=1024)
def _by_count(
    law: "BinaryLaw", trials: int, counts: Sequence[int], used: int = 0
) -> _Coefficients:
    chances = partial(_hypergeometric, trials, counts)
    return _coefficients(law.sums, law.size, chances, used)


@dataclass(frozen=True)
class BinaryLaw:
    """The law of one estimator at one group size G >= 2, for rewards of two values."""

    estimator: Estimator
    size: int
    values: WrongRight = WRONG_RIGHT

    @property
    def sums(self) -> _Sums:
        """Sums over a group's weights."""
        return _weight_sums(self.estimator, self.size, self.values)

    @property
    def span(self) -> float:
        """A right completion's reward less a wrong one's."""
        return self.values[1] - self.values[0]

    def knows_mean(self, moments: Moments) -> bool:
        """Whether the moments give the law without bias: by G + 3 completions or more."""
        return not 0 < np.min(moments.value_trials) < self.size + MORE_THAN_A_GROUP

    def _coefficients(self, moments: Moments) -> _Coefficients:
        """Average over groups of each prompt's completions, or by V where they are few."""
        one_pool = isinstance(moments, OnePoolMoments)
        # The chance of being right, by the mean reward.
        share_P = (moments.value - self.values[0]) / self.span
        trials_P = np.broadcast_to(moments.value_trials, share_P.shape)
        if not (trials_P.any() and self.knows_mean(moments)):
            if one_pool:
                needed = self.size + MORE_THAN_A_GROUP
                raise ValueError(f"give {needed} completions or more of each prompt")
            values, index = np.unique(share_P, return_inverse=True)
            by_value = _coefficients(self.sums, self.size, _independent(values))
            index_P = index.reshape(share_P.shape)
            return _Coefficients(*(column[index_P] for column in by_value))
        rows = np.empty((len(_Coefficients._fields), *share_P.shape))
        for trials in np.unique(moments.value_trials).astype(int).tolist():
            at = trials_P == trials
            right = np.rint(share_P[at] * trials).astype(int)
            # All possible counts, so that every draw of the noise shares one table.
            counts: Sequence[int] = range(trials + 1)
            index = right
            if trials >= MOST_COUNTS:
                some, index = np.unique(right, return_inverse=True)
                counts = tuple(some.tolist())
            columns = _by_count(self, trials, counts, int(one_pool))
            rows[:, at] = np.array(columns)[:, index]
        return _Coefficients(*rows)

    def __call__(self, moments: Moments) -> Law:
        """Evaluate at the moments of prompts, of any shape (..., P)."""
        law = self._coefficients(moments)
        right = (moments.reward_norm2 - self.values[0] * moments.norm2) / self.span
        wrong, gradient2 = moments.norm2 - right, moments.gradient2 / self.span**2
        second = law.right * right + law.wrong * wrong + law.gradient * gradient2
        return Law(second, law.slope / self.span, law.slope_alone / self.span)


def _scaled(
    mse: Callable[[Moments, int], Floats], size: int, factor: float
) -> Callable[[Moments], Law]:

    def law(moments: Moments) -> Law:
        second = mse(moments, size) + moments.gradient2
        slope = np.full_like(second, factor)
        return Law(factor**2 * second, slope, slope)

    return law


def find_law(
    estimator: Estimator, size: int, values: WrongRight | None = WRONG_RIGHT
) -> Callable[[Moments], Law] | None:
    """Find an estimator's exact law at group size G, a function of the prompts' moments.

    None where it has none: its weights depend on lengths, norms, the value or other
    prompts, or rewards have other than two `values`.
    """
    if mse := unbiased_law(estimator):
        return _scaled(mse, size, 1.0)
    if estimator.name == "centred":
        return _scaled(LAWS["grpo"], size, (size - 1) / size)
    if estimator.binary and values != WRONG_RIGHT:
        return None
    if values is not None and size >= 2 and estimator.takes_rewards_alone:
        return BinaryLaw(estimator, size, values)
    return None
