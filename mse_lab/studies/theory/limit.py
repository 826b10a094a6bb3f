"""The limit law of n Delta, Delta = J* - J(theta_n), for steps beta / (i + i0).

With -Hess J = Q diag(lambda) Q' at the maximum, lambda > 0, and Gamma the covariance of an
estimate there in the columns of Q (Theorem 8 of arXiv 2603.01162, whose text lacks beta^2),

    Sigma_kl = beta^2 Gamma_kl / (beta (lambda_k + lambda_l) - 1),
    n Delta -> sum_k w_k chi2_1,   w eigenvalues of (1/2) L Sigma L, L = diag(sqrt lambda),
    E n Delta -> sum_k m_k Gamma_kk,   m_k = beta^2 lambda_k / (2 (2 beta lambda_k - 1)),

so at N = B G completions a step E N n Delta -> c1 G + c2 + c3/(G-1), where c1, c2, c3 are
the parts of the noise in the metric m, and 1 + sqrt(c3/c1) is the best G of the limit.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.studies.theory.ascent import Rule
from mse_lab.studies.theory.bandit import Bandit
from mse_lab.studies.theory.noise import noise_of

FLAT = 1e-9  # Of the largest eigenvalue: less is zero.


@dataclass(frozen=True)
class Limit:
    """The limit at a bandit's maximum, for beta = speed / the least lambda."""

    bandit: Bandit
    speed: float = 2.0

    @cached_property
    def curvatures_K(self) -> Floats:
        """The eigenvalues of -Hess J above zero, ascending."""
        return self._eigen[0]

    @cached_property
    def directions_DK(self) -> Floats:
        """Q."""
        return self._eigen[1]

    @cached_property
    def _eigen(self) -> tuple[Floats, Floats]:
        values, vectors = np.linalg.eigh(-self.bandit.peak.hessian_DD)
        curved = values > FLAT * values.max()
        return values[curved], vectors[:, curved]

    @property
    def beta(self) -> float:
        """The factor of the steps."""
        return self.speed / float(self.curvatures_K[0])

    def _turned(self, matrix_DD: Floats) -> Floats:
        return self.directions_DK.T @ matrix_DD @ self.directions_DK

    def away(self, theta_TDR: Floats) -> Floats:
        """How far each run has been from the maximum, in any direction of Q, (R,)."""
        apart_TDR = theta_TDR - self.bandit.maximum_D[:, None]
        return np.abs(self.directions_DK.T @ apart_TDR).max((0, 1))

    def noise(self, rule: Rule) -> Floats:
        """Gamma, (K, K): the covariance of an estimate, in curved directions alone."""
        noise = noise_of(rule.estimator, self.bandit.peak)
        return self._turned(noise.covariance(rule.batch, rule.size))

    def weights(self, rule: Rule) -> Floats:
        """w_k of a rule, ascending."""
        return np.asarray(np.linalg.eigvalsh(self._gap_noise(rule)))

    def diagonal_weights(self, rule: Rule) -> Floats:
        """What w_k would be if Sigma were diagonal."""
        return np.diag(self._gap_noise(rule))

    def _gap_noise(self, rule: Rule) -> Floats:
        """(1/2) L Sigma L."""
        sums_KK = self.curvatures_K[:, None] + self.curvatures_K
        sigma_KK = self.beta**2 * self.noise(rule) / (self.beta * sums_KK - 1)
        roots_K = np.sqrt(self.curvatures_K)
        return np.asarray(roots_K[:, None] * sigma_KK * roots_K / 2)

    def constants(self, estimator: str) -> Floats:
        """c1, c2 and c3 in the metric m."""
        scale_K = 2 * (2 * self.beta * self.curvatures_K - 1)
        metric_K = self.beta**2 * self.curvatures_K / scale_K
        noise = noise_of(estimator, self.bandit.peak)
        parts = (noise.between_DD, noise.within_DD, noise.pairs_DD)
        return np.array([metric_K @ np.diag(self._turned(part)) for part in parts])

    @property
    def best_size(self) -> float:
        """1 + sqrt(c3/c1) of GRPO-type."""
        between, _, pairs = self.constants("grpo")
        return float(1 + np.sqrt(pairs / between))
