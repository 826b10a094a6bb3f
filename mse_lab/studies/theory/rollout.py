"""A rollout that several minibatches share: completions drawn at theta_0 and used later.

Each minibatch of G of them moves theta by eta times

    g_hat = (1/G) sum_i (Z_i - mean_{j != i} Z_j) U_i,   U = sum_t mu_t W_t at theta,
    mu_t = pi(y_t | y_<t) / pi_0(y_t | y_<t),

theta_0 being zero. What is left without noise is E_0[Z U]; it should be g at theta.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.studies.theory.sequences import Sequences, Written

# kappa of K3, and where its reference is, in every parameter.
KAPPA, REFERENCE = 0.1, 0.5

# PPO's c.
CLIP = 0.2


@dataclass(frozen=True)
class Rollout:
    """What completions of a policy at theta_0 tell at other parameters."""

    policy: Sequences

    @cached_property
    def start(self) -> Written:
        """The policy that they are drawn from."""
        return self.policy.at(self.policy.start_DR)

    @cached_property
    def reference(self) -> Written:
        """The policy that K3 pulls to."""
        return self.policy.at(self.policy.start_DR + REFERENCE)

    def ratios(self, now: Written) -> Floats:
        """mu_t, (N, T, R)."""
        return now.chances_NTR / self.start.chances_NTR

    def mean(self, now: Written, weights_NTR: Floats) -> Floats:
        """E_0[sum_t w_t W_t], (D, R)."""
        return now.mean(self.start.probabilities_NR, weights_NTR)

    def by_token(self, now: Written) -> Floats:
        """E_0[Z U], (D, R)."""
        return self.mean(now, self.ratios(now) * now.rewards_N1[:, None])

    def by_sequence(self, now: Written) -> Floats:
        """E_0[Z W prod_t mu_t], (D, R)."""
        whole_NR = self.ratios(now).prod(1) * now.rewards_N1
        return self.mean(now, whole_NR[:, None])

    def clipped(self, now: Written) -> tuple[Floats, float]:
        """The mean of PPO's gradient, (D, R), and the share of tokens without one."""
        ratios_NTR = self.ratios(now)
        advantages_N11 = (now.rewards_N1 - self.start.value_R)[:, None]
        beyond_NTR = (ratios_NTR - 1) * np.sign(advantages_N11) > CLIP
        share = float((self.start.probabilities_NR * beyond_NTR.mean(1)).sum(0).mean())
        return self.mean(now, ratios_NTR * advantages_N11 * ~beyond_NTR), share

    def bias(self, now: Written) -> Floats:
        """Bias of token ratios, (D, R)."""
        return self.by_token(now) - now.gradient_DR

    def bias_of_all(self, now: Written) -> Floats:
        """The same over sd(Z), that of theta_0 being known, and with K3, (D, R)."""
        pull_NTR = KAPPA * (1 - self.reference.chances_NTR / now.chances_NTR)
        pulled_DR = self.mean(now, pull_NTR) - now.mean(now.probabilities_NR, pull_NTR)
        scaled_DR = self.by_token(now) / self.start.sd_R - now.gradient_DR / now.sd_R
        return scaled_DR - pulled_DR

    def _draw(self, size: int, runs: int, draws: np.random.Generator) -> Floats:
        """Draw a minibatch of G for each run; what it makes of each completion, (N, R).

        That is its share of the minibatch times its advantage, Z less the others' mean.
        """
        counts_RN = draws.multinomial(size, self.start.probabilities_NR[:, 0], runs)
        counts_NR, rewards_N = counts_RN.T.astype(float), self.policy.rewards_N
        others_NR = (rewards_N @ counts_NR - rewards_N[:, None]) / (size - 1)
        return np.asarray(counts_NR * (rewards_N[:, None] - others_NR) / size)

    def train(
        self, size: int, eta: float, count: int, runs: int, draws: np.random.Generator
    ) -> Floats:
        """Train R runs by minibatches of G; give theta_1 to theta_m, (M, D, R)."""
        theta_DR, path = np.repeat(self.policy.start_DR, runs, 1), []
        for _ in range(count):
            now = self.policy.at(theta_DR)
            moved_DR = now.mean(self._draw(size, runs, draws), self.ratios(now))
            theta_DR = np.asarray(theta_DR + eta * moved_DR)
            path.append(theta_DR)
        return np.array(path)
