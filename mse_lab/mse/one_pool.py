"""One pool: few completions of a prompt, no reference, and its moments without bias.

N completions are drawn, all with a reward Z, and K of them are differentiated: all, or some
of each reward. Given the rewards, completions of one reward are drawn alike, so the score
of one that was not differentiated has the expectation of the others of its reward. With

    w_k = (Z_k - Zbar) / (N-1) n_z / k_z,

n_z completions of reward z = Z_k drawn and k_z of them differentiated, sum_k w_k W_k is the
leave-one-out gradient of all N on average, and so unbiased for g. For rewards 0 and 1 it is
c (N-c) / (N (N-1)) times the difference of the mean scores of right and wrong ones.

A product of expectations is estimated by a mean over different completions. With the Gram
matrix K, and letters as in `moments.py`,

    V S      mean of Z_j K_ii over i != j
    V B      mean of Z_j Z_i K_ii over i != j
    V^2 S    mean of Z_j Z_k K_ii over different i, j, k
    Var(Z) S mean of Z_j^2 K_ii over i != j, less V^2 S
    ||g||^2  mean of (Z_i - Z_j) (Z_k - Z_l) K_ik over different i, j, k, l,

the last for g = E[(W_i - W_j) (Z_i - Z_j)] / 2. With m = N - 2 and the sums R of Z and Q of
Z^2 over all but i and k, its sum over j != l is

    Z_i Z_k m (m-1) - (Z_i + Z_k) (m-1) R + R^2 - Q.

A sum of scores with other weights that depend on the rewards and sum to zero is one of
V - 1 vectors, V the number of different rewards: the gradient, and for each reward but the
least and the largest its mean score less that of the least. These are kept, so that what
any loss makes of the completions is known afterwards (`subgroups.py`); for rewards of two
values it is the gradient alone. All but the gradient are folded: there may be as many as
completions, and 8,192 of them shall take less than 200 MB.

Where some are not differentiated, each K_ii stands for n_z / k_z completions, and each K_ik
for the pairs of the same two rewards that were drawn, over those that were differentiated.
For rewards 0 and 1, p is estimated by all completions, its powers by factorial moments, and
mean products by the differentiated completions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import perm
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mse_lab.arrays import Floats, Ints, divide
from mse_lab.estimators.groups import is_binary
from mse_lab.mse.moments import OnePoolMoments

# The fewest completions that give products of four different ones, and, of one reward, of
# two.
LEAST_COMPLETIONS, LEAST_OF_A_REWARD = 4, 2

# Numbers of a folded sketch, and of one before. Folding adds buckets FOLDED apart, which is
# a hash to fewer of them, whose rows are longer: by `scores/sketches.py` the error of a
# product is some sqrt(1/FOLDED) of the product of the norms, and at most sqrt(6/FOLDED).
FOLDED = 3641
SKETCHED = 9 * FOLDED


def fold(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Add up the buckets of sketches, (..., 9 F), into F; whole vectors stay as they are.

    >>> fold(np.ones((0, SKETCHED))).shape, fold(np.array([1.0, 2.0]))
    ((0, 3641), array([1., 2.]))
    """
    if vectors.shape[-1] != SKETCHED:
        return vectors
    parts = vectors.reshape(*vectors.shape[:-1], SKETCHED // FOLDED, FOLDED)
    return np.asarray(parts.sum(-2))


@dataclass(frozen=True, eq=False)
class PromptSample:
    """Completions of one prompt: one pool, no reference."""

    rewards_N: Floats  # Rewards Z of all N completions drawn.
    scored_K: Ints  # Indices of the K that were differentiated, ascending.
    gram_KK: Floats  # <W_i, W_j> of those, float64.
    gradient_D: NDArray[np.float32]  # Unbiased for g; whole, or a sketch.
    inner_MF: NDArray[np.float32]  # The other sums of scores by `kept_weights`, folded.
    lengths_N: Ints  # Tokens of each completion, end token included.
    logit_norms2_N: Floats  # As in `Pools`; NaN where not recorded.

    @property
    def completions(self) -> int:
        """N."""
        return len(self.rewards_N)

    @property
    def differentiated(self) -> int:
        """K."""
        return len(self.scored_K)

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """What was worked out by this block, whatever others there are."""
        return {}

    def weighted_sum(self, weights_N: Floats) -> NDArray[np.float32]:
        """Sum scores, folded, with weights of zero sum that equal rewards share."""
        _, first, counts = np.unique(self.rewards_N, return_index=True, return_counts=True)
        apart_N = gradient_weights(self.rewards_N, np.arange(self.completions))
        # Of completions with the largest reward only the gradient has scores.
        scale = divide(weights_N[first[-1]], apart_N[first[-1]])
        rest_V = counts * (weights_N - scale * apart_N)[first]
        inner_F = rest_V[1:-1].astype(np.float32) @ self.inner_MF
        return np.asarray(np.float32(scale) * fold(self.gradient_D) + inner_F)


def drawn_for_each(rewards_N: Floats, scored_K: Ints) -> Floats:
    """How many drawn completions each differentiated one stands for, n_z / k_z, (K,).

    >>> drawn_for_each(np.array([1.0, 1.0, 0.0, 0.0, 0.0]), np.array([0, 2, 4]))
    array([2. , 1.5, 1.5])
    """
    _, index_N, drawn = np.unique(rewards_N, return_inverse=True, return_counts=True)
    index_K = index_N[scored_K]
    scored = np.bincount(index_K, minlength=len(drawn))
    return np.asarray(drawn[index_K] / scored[index_K], dtype=np.float64)


def gradient_weights(rewards_N: Floats, scored_K: Ints) -> Floats:
    """Compute weights w_K with E sum_k w_k W_k = g; one or more of each reward is scored.

    >>> gradient_weights(np.array([1.0, 0.0, 0.0]), np.arange(3)).round(3)
    array([ 0.333, -0.167, -0.167])
    """
    apart_N = (rewards_N - rewards_N.mean()) / (len(rewards_N) - 1)
    return np.asarray(apart_N[scored_K] * drawn_for_each(rewards_N, scored_K))


def kept_weights(rewards_N: Floats, scored_K: Ints) -> Floats:
    """Give the weights (M, K) of what is kept of scores, M = V - 1 of V rewards, or one.

    The gradient's come first; where rewards have more than two values, all are scored.

    >>> kept_weights(np.array([1.0, 0.1, 0.0, 0.0]), np.arange(4)).round(3)
    array([[ 0.242, -0.058, -0.092, -0.092],
           [ 0.   ,  1.   , -0.5  , -0.5  ]])
    """
    rows, values = [gradient_weights(rewards_N, scored_K)], np.unique(rewards_N)
    least_N = rewards_N == values[0]
    for inner_N in (rewards_N == value for value in values[1:-1]):
        rows.append(inner_N / inner_N.sum() - least_N / least_N.sum())
    return np.stack(rows)


def choose_scored(
    rewards_N: Floats, most: tuple[int, int] | None, rng: np.random.Generator
) -> Ints:
    """Choose which completions to differentiate, ascending indices.

    `most` is the number of right and of wrong completions at most, each two or more
    (ValueError), for rewards 0 and 1; None for all. With graded rewards all are chosen. The
    generator chooses among completions of one reward: supplied ones may be ordered.
    """
    if most is None or not is_binary(rewards_N):
        return np.arange(len(rewards_N))
    if min(most) < LEAST_OF_A_REWARD:
        raise ValueError(f"at most {most}: give two or more of each kind")
    right, wrong = (np.flatnonzero(rewards_N == kind) for kind in (1, 0))
    chosen = [
        rng.permutation(kind)[:count]
        for kind, count in zip((right, wrong), most, strict=True)
    ]
    return np.sort(np.concatenate(chosen))


class Stack(NamedTuple):
    """Q samples of one shape: N completions, K of them differentiated."""

    rewards_QN: Floats  # Rewards of all completions.
    rewards_QK: Floats  # Rewards of the differentiated completions.
    alike_QK: Ints  # k_z: how many of the differentiated have each one's reward.
    drawn_QK: Ints  # n_z: how many of all have each one's reward.
    gram_QKK: Floats  # <W_i, W_j>.
    logits_QK: Floats  # Norms of the logits' scores of those; NaN where not recorded.

    @classmethod
    def of(cls, samples: Sequence[PromptSample]) -> Self:
        """Stack samples of one shape."""
        rewards_QN = np.stack([one.rewards_N for one in samples])
        scored_QK = np.stack([one.scored_K for one in samples])
        rewards_QK = np.take_along_axis(rewards_QN, scored_QK, axis=-1)
        alike_QK, drawn_QK = (
            (rewards_QK[..., None] == among[:, None]).sum(-1)
            for among in (rewards_QK, rewards_QN)
        )
        gram_QKK = np.stack([one.gram_KK for one in samples])
        logits_QK = np.stack([one.logit_norms2_N[one.scored_K] for one in samples])
        return cls(rewards_QN, rewards_QK, alike_QK, drawn_QK, gram_QKK, logits_QK)

    @property
    def completions(self) -> int:
        """N."""
        return self.rewards_QN.shape[-1]

    @property
    def norms2_QK(self) -> Floats:
        """||W_i||^2."""
        return np.diagonal(self.gram_QKK, axis1=-2, axis2=-1)

    @property
    def each_QK(self) -> Floats:
        """How many drawn completions each differentiated one stands for, n_z / k_z."""
        return np.asarray(self.drawn_QK / self.alike_QK)

    @property
    def pairs_QKK(self) -> Floats:
        """How many drawn pairs each differentiated pair stands for.

        Two of one reward stand for n_z (n_z - 1) / (k_z (k_z - 1)); zero on the diagonal.
        """
        same_QK = self.each_QK * divide(self.drawn_QK - 1, self.alike_QK - 1)
        pairs_QKK = np.where(
            self.rewards_QK[..., None] == self.rewards_QK[:, None],
            same_QK[..., None],
            self.each_QK[..., None] * self.each_QK[:, None],
        )
        return pairs_QKK * (1 - np.eye(pairs_QKK.shape[-1]))

    def sums_of_others(self, power: int) -> Floats:
        """Sum of Z^power over all completions but each one differentiated."""
        total_Q1 = (self.rewards_QN**power).sum(-1, keepdims=True)
        return np.asarray(total_Q1 - self.rewards_QK**power)


def gradient_terms(stack: Stack) -> Floats:
    """The contribution of each pair of completions to ||g||^2, (Q, K, K).

    Their sum estimates ||g||^2 without bias, by the last formula of the module.
    """
    # A shift of all rewards changes nothing, and fewer digits are lost about the mean.
    mean_Q1 = stack.rewards_QN.mean(-1, keepdims=True)
    rewards_QN, one_QK = stack.rewards_QN - mean_Q1, stack.rewards_QK - mean_Q1
    rest = stack.completions - 2
    pair = one_QK[..., None] + one_QK[:, None]
    others = rewards_QN.sum(-1)[:, None, None] - pair
    squares = (rewards_QN**2).sum(-1)[:, None, None] - (
        one_QK[..., None] ** 2 + one_QK[:, None] ** 2
    )
    factors_QKK = (
        one_QK[..., None] * one_QK[:, None] * rest * (rest - 1)
        - pair * (rest - 1) * others
        + others**2
        - squares
    )
    weights_QKK = stack.pairs_QKK * factors_QKK / perm(stack.completions, 4)
    return np.asarray(weights_QKK * stack.gram_QKK)


def gradient_noise2(terms_QKK: Floats) -> Floats:
    """Estimate the variance of ||g||^2's estimate where scores are independent of rewards.

    Then g is zero, and pairs are uncorrelated given the rewards.
    """
    return np.asarray(2 * (terms_QKK**2).sum((-2, -1)))


def _learning(stack: Stack) -> Floats:
    """Estimate by how much the pool's least mean of (Z-b)^2 ||W||^2 is too small.

    This is S Var(b) to first order, b = sum Z ||W||^2 / sum ||W||^2. In the numerator of
    b's error the n_z terms (Z-b*) ||W||^2 of a reward are estimated by n_z times the mean m
    of its k_z differentiated ones; m has the variance s^2 / k_z, which m^2 includes. So the
    numerator's variance is the sum over rewards of n_z (n_z - 1) s^2 / k_z + n_z m^2.
    """
    weighted_QK = stack.each_QK * stack.norms2_QK
    total_Q1 = weighted_QK.sum(-1, keepdims=True)
    baseline_Q1 = divide((weighted_QK * stack.rewards_QK).sum(-1, keepdims=True), total_Q1)
    terms_QK = (stack.rewards_QK - baseline_Q1) * stack.norms2_QK
    alike_QKK = stack.rewards_QK[..., None] == stack.rewards_QK[:, None]
    means_QK = (alike_QKK @ terms_QK[..., None])[..., 0] / stack.alike_QK
    # Each of k_z completions of a reward carries its k_z-th part.
    spread_QK = divide((terms_QK - means_QK) ** 2, stack.alike_QK - 1)
    parts_QK = (stack.drawn_QK - 1) * spread_QK + means_QK**2
    variance_Q = (stack.each_QK * parts_QK).sum(-1)
    return divide(variance_Q, (stack.completions - 1) * total_Q1[:, 0])


def sample_moments(stack: Stack) -> OnePoolMoments:
    """Estimate the moments of each sample, (Q,), without bias except for b*.

    Raises:
        ValueError: The samples have fewer than four completions.
    """
    count = stack.completions
    if count < LEAST_COMPLETIONS:
        raise ValueError(f"{count} completions: give {LEAST_COMPLETIONS} or more")
    rewards_QN, rewards_QK = stack.rewards_QN, stack.rewards_QK
    weighted_QK = stack.each_QK * stack.norms2_QK
    others_QK, squares_QK = stack.sums_of_others(1), stack.sums_of_others(2)

    def mean(factors_QK: Floats | float, different: int) -> Floats:
        total_Q = (weighted_QK * factors_QK).sum(-1)
        return np.asarray(total_Q / perm(count, different))

    logits_QK = stack.each_QK * stack.logits_QK
    value2_norm2 = mean(others_QK**2 - squares_QK, 3)
    variance_Q = rewards_QN.var(-1, ddof=1)
    return OnePoolMoments(
        norm2=mean(1.0, 1),
        reward_norm2=mean(rewards_QK, 1),
        reward2_norm2=mean(rewards_QK**2, 1),
        value=rewards_QN.mean(-1),
        variance=variance_Q,
        gradient2=gradient_terms(stack).sum((-2, -1)),
        value_variance=variance_Q / count,
        value_trials=np.full(len(rewards_QN), count),
        learning=_learning(stack),
        logit_norm2=logits_QK.sum(-1) / count,
        reward_logit_norm2=(logits_QK * rewards_QK).sum(-1) / count,
        value_norm2=mean(others_QK, 2),
        value_reward_norm2=mean(rewards_QK * others_QK, 2),
        value2_norm2=value2_norm2,
        variance_norm2=mean(squares_QK, 2) - value2_norm2,
    )
