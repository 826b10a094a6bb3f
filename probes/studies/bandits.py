"""Bandits on which all is exact: their gradient, Hessian, maximum and noise are listed.

A prompt x, one of P equally likely, has K completions; the policy is log-linear,

    pi(y|x) = exp(f(x,y)'theta + a(x,y)) / sum of the same,     W(x,y) = f(x,y) - E f,
    J = mean_x V(x),   grad J = mean_x E[Z W],   Hess J = mean_x E[(Z - V) W W'],

and the covariance of an estimate of grad J from B prompts of G completions is

    Cov = between / B + within(b) / (B G) + pairs / (B G (G-1)),
    between = Cov g(X),  within(b) = E Cov[(Z - b) W | X],  pairs = E[Var(Z) E WW' + g g'],

the last for GRPO-type alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from mse_lab.arrays import Floats, Ints
from mse_lab.estimators import find_estimator
from mse_lab.estimators.groups import Groups


class Rule(NamedTuple):
    """An estimator, with B prompts of G completions a step."""

    estimator: str
    batch: int
    size: int


@dataclass(frozen=True)
class Bandit:
    """A log-linear policy and its rewards."""

    features_PKD: Floats  # f(x, y).
    offsets_PK: Floats  # a(x, y).
    rewards_PK: Floats  # Z.

    def chances(self, theta_DR: Floats) -> Floats:
        """pi(y|x) at the parameters of R runs, (P, K, R)."""
        logits_PKR = self.features_PKD @ theta_DR + self.offsets_PK[..., None]
        return special.softmax(logits_PKR, axis=1)

    def value(self, theta_DR: Floats) -> Floats:
        """J at the parameters of R runs, (R,)."""
        values_PR = np.einsum("pkr,pk->pr", self.chances(theta_DR), self.rewards_PK)
        return values_PR.mean(0)


class Point(NamedTuple):
    """A bandit at parameters, its completions listed."""

    bandit: Bandit
    theta_D: Floats
    chances_PK: Floats  # pi(y|x).
    values_P: Floats  # V.
    scores_PKD: Floats  # W.
    norms2_PK: Floats  # ||W||^2.
    gradients_PD: Floats  # g.

    def mean(self, values_PK: Floats) -> Floats:
        """Mean over the completions of each prompt, (P,)."""
        return (self.chances_PK * values_PK).sum(1)

    def mean_outer(self, factors_PK: Floats) -> Floats:
        """mean_x E[factor W W'], (D, D)."""
        weights_PK = self.chances_PK * factors_PK / len(factors_PK)
        return np.einsum("pk,pkd,pke->de", weights_PK, self.scores_PKD, self.scores_PKD)

    @property
    def hessian_DD(self) -> Floats:
        """Hess J."""
        return self.mean_outer(self.bandit.rewards_PK - self.values_P[:, None])

    @property
    def best_constants_P(self) -> Floats:
        """b* = E[Z ||W||^2] / E||W||^2."""
        right_PK = self.bandit.rewards_PK * self.norms2_PK
        return self.mean(right_PK) / self.mean(self.norms2_PK)

    def noise(self, estimator: str) -> tuple[Floats, Floats, Floats]:
        """The parts of an estimate's covariance: between, within and pairs, (D, D) each."""
        rewards_PK, gradients_PD = self.bandit.rewards_PK, self.gradients_PD
        fixed = {"vanilla": 0 * self.values_P, "best-constant": self.best_constants_P}
        baselines_P = fixed.get(estimator, self.values_P)
        squares_DD = gradients_PD.T @ gradients_PD / len(gradients_PD)
        within_DD = self.mean_outer((rewards_PK - baselines_P[:, None]) ** 2) - squares_DD
        variances_P = self.mean((rewards_PK - self.values_P[:, None]) ** 2)
        pairs_DD = self.mean_outer(variances_P[:, None] + 0 * rewards_PK) + squares_DD
        between_DD = np.cov(gradients_PD.T, bias=True)
        return between_DD, within_DD, pairs_DD * (estimator == "grpo")

    def covariance(self, rule: Rule) -> Floats:
        """The covariance of an estimate of grad J."""
        between, within, pairs = self.noise(rule.estimator)
        size = rule.size
        return (between + within / size + pairs / (size * (size - 1))) / rule.batch


def list_point(bandit: Bandit, theta_D: Floats) -> Point:
    """List the completions of a bandit at parameters."""
    chances_PK = bandit.chances(theta_D[:, None])[..., 0]
    means_PD = np.einsum("pk,pkd->pd", chances_PK, bandit.features_PKD)
    scores_PKD = bandit.features_PKD - means_PD[:, None]
    norms2_PK, right_PK = np.square(scores_PKD).sum(-1), chances_PK * bandit.rewards_PK
    gradients_PD = np.einsum("pk,pkd->pd", right_PK, scores_PKD)
    listed = chances_PK, right_PK.sum(1), scores_PKD, norms2_PK, gradients_PD
    return Point(bandit, theta_D, *listed)


def find_maximum(bandit: Bandit) -> Point:
    """Climb from zero by gradient ascent, then by Newton's steps."""
    point = list_point(bandit, np.zeros(bandit.features_PKD.shape[-1]))
    for _ in range(300):
        point = list_point(bandit, point.theta_D + 5 * point.gradients_PD.mean(0))
    for _ in range(8):
        step_D = np.linalg.pinv(point.hessian_DD, rcond=1e-6) @ point.gradients_PD.mean(0)
        point = list_point(bandit, point.theta_D - step_D)
    return point


def opposed(right: Sequence[float], wide: int) -> Bandit:
    """Two prompts of two completions for each of some directions: they want opposed things.

    J = mean_k (1/2) [sigma(a_k + v_k) + sigma(a_k - v_k)], v = Q'theta, is largest at
    v = 0, where the prompts of direction k are right with the probability `right[k]`, above
    one half; `wide` - len(right) directions are flat.
    """
    count = len(right)
    turned = np.linalg.qr(np.vander(np.linspace(0.3, 1, wide), count))[0].T
    features, offsets = np.zeros((2 * count, 2, wide)), np.zeros((2 * count, 2))
    features[:, 0] = np.concatenate([turned, -turned])
    offsets[:, 0] = np.tile(special.logit(right), 2)
    return Bandit(features, offsets, np.tile([1.0, 0.0], (2 * count, 1)))


def crossed(right: Sequence[float], wide: int) -> Bandit:
    """`opposed`, and noise that is correlated between the directions of the Hessian.

    Two more prompts have four completions with rewards 0 to 1 along the sum of all
    directions, and want opposed things: their values add up to 1 wherever v is, so they
    bring noise and no curvature. Completions of the others are split in two alike.
    """
    curved = opposed(right, wide)
    across = curved.features_PKD[: len(right), 0].sum(0)
    line = 1.5 * np.linspace(-1, 1, 4)[:, None] * across
    return Bandit(
        np.concatenate([curved.features_PKD.repeat(2, 1), [line, -line]]),
        np.concatenate([curved.offsets_PK.repeat(2, 1), np.zeros((2, 4))]),
        np.concatenate([curved.rewards_PK.repeat(2, 1), [np.linspace(0, 1, 4)] * 2]),
    )


def worded(bandit: Bandit, choices: int) -> Bandit:
    """Let a word that the reward does not see follow each completion.

    Each word has a parameter, which all prompts share; at zero all are equally likely.
    """
    prompts, actions, _ = bandit.features_PKD.shape
    words = np.tile(np.eye(choices), (prompts, actions, 1))
    features = np.concatenate([bandit.features_PKD.repeat(choices, 1), words], axis=-1)
    others = (bandit.offsets_PK, bandit.rewards_PK)
    return Bandit(features, *(values.repeat(choices, 1) for values in others))


def surrounded() -> Bandit:
    """Six prompts of six completions in three directions of five, one of them right.

    The right one has features in the hull of the others', so no direction favours it for
    ever, and the maximum is interior. Features are random, and always the same.
    """
    draws = np.random.default_rng(3)
    turned = np.linalg.qr(draws.standard_normal((5, 3)))[0].T
    features = draws.standard_normal((6, 6, 3))
    inside = draws.dirichlet(np.full(5, 0.7), 6)
    features[:, 0] = np.einsum("pk,pkd->pd", inside, features[:, 1:])
    right = np.tile(np.eye(1, 6), (6, 1))
    return Bandit(features @ turned, 1.5 * right, right)


def weights_of(estimator: str, rewards_SG: Floats, values_S: Floats) -> Floats:
    """Weigh S groups as the package's estimator does, (S, G)."""
    rewards_PRG = rewards_SG[:, None]
    unknown, none = np.full(rewards_PRG.shape, np.nan), np.full((len(values_S), 1), np.nan)
    lengths = np.ones(rewards_PRG.shape, dtype=int)
    groups = Groups(rewards_PRG, lengths, unknown, values_S, none)
    return find_estimator(estimator).weights(groups)[:, 0]


def draw(chances_SK: Floats, count: int, draws: np.random.Generator) -> Ints:
    """Draw completions, `count` by each row of chances, (S, G)."""
    uniforms_SG = draws.random((len(chances_SK), count))
    below_SK = np.cumsum(chances_SK, axis=1)[:, :-1]
    return (uniforms_SG[..., None] >= below_SK[:, None]).sum(-1)


def estimate(
    bandit: Bandit, rule: Rule, theta_DR: Floats, draws: np.random.Generator
) -> Floats:
    """Draw an estimate of grad J for each run, (D, R), from S = B R groups."""
    chances_PKR = bandit.chances(theta_DR)
    run_S = np.tile(np.arange(theta_DR.shape[1]), rule.batch)
    prompt_S = draws.integers(len(bandit.rewards_PK), size=len(run_S))
    chances_SK, rewards_SK = chances_PKR[prompt_S, :, run_S], bandit.rewards_PK[prompt_S]
    drawn_SG = draw(chances_SK, rule.size, draws)
    rewards_SG = np.take_along_axis(rewards_SK, drawn_SG, 1)
    values_S = (chances_SK * rewards_SK).sum(1)
    weights_SG = weights_of(rule.estimator, rewards_SG, values_S)
    # sum_i w_i W_i = sum_y (sum of the w_i that drew y, less pi(y) sum_i w_i) f(y).
    counted_SK = -chances_SK * weights_SG.sum(1, keepdims=True)
    np.add.at(counted_SK, (np.arange(len(run_S))[:, None], drawn_SG), weights_SG)
    total_SD = np.einsum("sk,skd->sd", counted_SK, bandit.features_PKD[prompt_S])
    total_RD = total_SD.reshape(rule.batch, -1, len(theta_DR)).sum(0)
    return total_RD.T / (rule.batch * rule.size)
