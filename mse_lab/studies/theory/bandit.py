"""Bandits small enough to enumerate: exact value, gradient, Hessian and moments.

A prompt x, one of P equally likely, has K completions; the policy is log-linear,

    pi(y|x) = exp(f(x,y)'theta + a(x,y)) / sum of the same,     W(x,y) = f(x,y) - E f,
    J = mean_x V(x),   grad J = mean_x E[Z W],   Hess J = mean_x (E[Z W W'] - V E[W W']).

The last is why E_x[S (b* - V)] = tr Hess J, which is not positive at a maximum.

An interior maximum takes prompts that share parameters and want opposed things. `opposed`
has two for each of r directions q_k, the columns of an orthonormal Q of D > r rows:

    J = mean_k (1/2) [sigma(v_k + a_k) + sigma(a'_k - v_k)],   v = Q'theta,

largest at v_k = (a'_k - a_k)/2, where all are right with p_k = sigma((a_k + a'_k)/2), and
Hess J has the eigenvalues -p(1-p)(2p-1)/r and D - r times 0. `tabular` is one prompt alone:
its value has a supremum, and no maximum. `crossed` and `worded` add noise where `opposed`
has none: between the directions of the Hessian, and where it is flat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logit

from mse_lab.arrays import Floats
from mse_lab.mse.moments import Moments
from mse_lab.probe.streams import stream

# Newton's steps from a rough maximum, of which each squares the error.
ROUGH_STEPS, NEWTON_STEPS = 300, 8

# How near the middle of the hull right features lie (Dirichlet), and their favour.
MIDST, FAVOUR = 0.7, 1.5


@dataclass(frozen=True)
class Bandit:
    """A log-linear policy and its rewards."""

    features_PKD: Floats  # f(x, y).
    offsets_PK: Floats  # a(x, y).
    rewards_PK: Floats  # Z.

    def at(self, theta_D: Floats) -> Point:
        """Enumerate the completions at parameters (D,), or at those of R runs, (D, R)."""
        shape = (*self.offsets_PK.shape, *theta_D.shape[1:])
        logits = self.features_PKD @ theta_D.reshape(len(theta_D), -1)
        logits += self.offsets_PK[..., None]
        unscaled = np.exp(logits - logits.max(1, keepdims=True))
        return Point(self, (unscaled / unscaled.sum(1, keepdims=True)).reshape(shape))

    def value(self, theta_D: Floats) -> Floats:
        """J at parameters (D,) or (D, R)."""
        return self.at(theta_D).value_P.mean(0)

    @cached_property
    def gram_PKK(self) -> Floats:
        """<f(x, y), f(x, y')>."""
        return self.features_PKD @ self.features_PKD.transpose(0, 2, 1)

    @cached_property
    def maximum_D(self) -> Floats:
        """The maximum uphill of zero, by gradient ascent and Newton's steps."""
        theta = np.zeros(self.features_PKD.shape[-1])
        for _ in range(ROUGH_STEPS):
            theta = theta + 5 * self.at(theta).gradients_PD.mean(0)
        for _ in range(NEWTON_STEPS):
            point = self.at(theta)
            theta = theta - np.linalg.pinv(point.hessian_DD, rcond=1e-6) @ (
                point.gradients_PD.mean(0)
            )
        return theta

    @cached_property
    def peak(self) -> Point:
        """All of it at the maximum."""
        return self.at(self.maximum_D)


@dataclass(frozen=True)
class Point:
    """A bandit at parameters, completions enumerated; runs, if any, are the last axis."""

    bandit: Bandit  # The bandit.
    probabilities_PK: Floats  # pi(y|x), (P, K) or (P, K, R).

    def mean(self, values_PK: Floats) -> Floats:
        """Mean over the completions of each prompt, (P,) or (P, R)."""
        return np.einsum("pk...,pk...->p...", self.probabilities_PK, values_PK)

    def like(self, values_PK: Floats) -> Floats:
        """Give what is the same for all runs the axis of runs."""
        one_more = self.probabilities_PK.ndim - values_PK.ndim
        return values_PK.reshape(*values_PK.shape, *[1] * one_more)

    @cached_property
    def rewards_PK(self) -> Floats:
        """Z, (P, K) or (P, K, 1)."""
        return self.like(self.bandit.rewards_PK)

    @cached_property
    def value_P(self) -> Floats:
        """V of each prompt."""
        return self.mean(self.rewards_PK)

    @cached_property
    def norms2_PK(self) -> Floats:
        """||W||^2 = ||f||^2 - 2 f'E f + ||E f||^2."""
        gram = self.bandit.gram_PKK
        shape = self.probabilities_PK.shape
        with_mean = (gram @ self.probabilities_PK.reshape(*shape[:2], -1)).reshape(shape)
        squares = self.like(np.einsum("pkk->pk", gram))
        return squares - 2 * with_mean + self.mean(with_mean)[:, None]

    @cached_property
    def scores_PKD(self) -> Floats:
        """W, (P, K, D) or (P, K, D, R)."""
        features = self.bandit.features_PKD
        means = np.einsum("pk...,pkd->pd...", self.probabilities_PK, features)
        shared = features.reshape(*features.shape, *[1] * (means.ndim - 2))
        return np.asarray(shared - means[:, None])

    @cached_property
    def gradients_PD(self) -> Floats:
        """E[Z W] of each prompt, (P, D) or (P, D, R)."""
        weights = self.probabilities_PK * self.rewards_PK
        return np.einsum("pk...,pkd...->pd...", weights, self.scores_PKD)

    def mean_outer(self, factors_PK: Floats) -> Floats:
        """mean_x E[factor W W'], (D, D) or (D, D, R)."""
        weights = self.probabilities_PK * factors_PK / len(self.probabilities_PK)
        scores = self.scores_PKD
        return np.einsum("pk...,pkd...,pke...->de...", weights, scores, scores)

    @property
    def hessian_DD(self) -> Floats:
        """The Hessian of J."""
        return self.mean_outer(self.rewards_PK - self.value_P[:, None])

    @cached_property
    def moments(self) -> Moments:
        """The moments of each prompt, (P,) or (R, P)."""
        apart = self.rewards_PK - self.value_P[:, None]
        parts = [self.mean(self.rewards_PK**power * self.norms2_PK) for power in range(3)]
        parts += [self.value_P, self.mean(apart**2), np.square(self.gradients_PD).sum(1)]
        return Moments(*(part.T for part in parts))


def opposed(right: Sequence[float], centre: Sequence[float] | Floats, wide: int) -> Bandit:
    """Two prompts of two completions for each direction, which want opposed things.

    Args:
        right: p_k, how often either is right at the maximum; above one half.
        centre: v_k there.
        wide: D, more than directions.
    """
    count, centre_K = len(right), np.array(centre)
    turned = np.linalg.qr(np.vander(np.linspace(0.3, 1, wide), count))[0].T
    features = np.zeros((2 * count, 2, wide))
    features[:, 0] = np.concatenate([turned, -turned])
    offsets = np.zeros((2 * count, 2))
    offsets[:, 0] = np.concatenate([logit(right) - centre_K, logit(right) + centre_K])
    return Bandit(features, offsets, _first_right(2 * count, 2))


def crossed(right: Sequence[float], wide: int, reach: float) -> Bandit:
    """`opposed`, with noise between the directions of its Hessian.

    Two more prompts have four completions with rewards 0 to 1 along the sum of all
    directions, and want opposed things: their values add up to 1 wherever v is, so they
    bring noise and no curvature. Completions of the others are split in two alike.

    Args:
        right: p_k, as in `opposed`.
        wide: D, more than directions.
        reach: How far out the last of the four completions lies.
    """
    curved, count = opposed(right, np.zeros(len(right)), wide), len(right)
    across = curved.features_PKD[:count, 0].sum(0)
    line = reach * np.linspace(-1, 1, 4)[:, None] * across
    return Bandit(
        np.concatenate([curved.features_PKD.repeat(2, 1), [line, -line]]),
        np.concatenate([curved.offsets_PK.repeat(2, 1), np.zeros((2, 4))]),
        np.concatenate([curved.rewards_PK.repeat(2, 1), [np.linspace(0, 1, 4)] * 2]),
    )


def worded(bandit: Bandit, choices: int) -> Bandit:
    """Let a word that the reward does not see follow each completion.

    Args:
        bandit: Any.
        choices: The number of words, equally likely at parameters of zero. Each word has a
            parameter, which all prompts share.
    """
    actions = bandit.features_PKD.shape[1]
    words_PKD = np.tile(np.eye(choices), (len(bandit.features_PKD), actions, 1))
    features_PKD = bandit.features_PKD.repeat(choices, 1)
    return Bandit(
        np.concatenate([features_PKD, words_PKD], axis=-1),
        bandit.offsets_PK.repeat(choices, 1),
        bandit.rewards_PK.repeat(choices, 1),
    )


def surrounded(prompts: int, actions: int, rank: int, wide: int) -> Bandit:
    """Prompts whose one right completion has features in the hull of the others'.

    So no direction favours it for ever, and the maximum is interior. Features are random,
    and always the same.
    """
    draws = stream(0, "theory", "surrounded")
    turned = np.linalg.qr(draws.standard_normal((wide, rank)))[0].T
    features = draws.standard_normal((prompts, actions, rank))
    inside = draws.dirichlet(np.full(actions - 1, MIDST), prompts)
    features[:, 0] = np.einsum("pk,pkd->pd", inside, features[:, 1:])
    offsets = np.zeros((prompts, actions))
    offsets[:, 0] = FAVOUR
    rewards = _first_right(prompts, actions)
    return Bandit(features @ turned, offsets, rewards)


def tabular(actions: int) -> Bandit:
    """One prompt, a parameter for each completion: no interior maximum."""
    features = np.eye(actions)[None]
    rewards = _first_right(1, actions)
    return Bandit(features, np.zeros((1, actions)), rewards)


def _first_right(prompts: int, actions: int) -> Floats:
    """Rewards: the first completion of each prompt is right."""
    return np.tile(np.eye(1, actions), (prompts, 1))
