"""The mismatch of an engine: how far the law that drew completions is from the policy's.

An engine mu draws, and the policy pi is differentiated. With the ratios of each token,
rho_t = pi(y_t | x, y_<t) / mu(y_t | x, y_<t),

    KL(mu || pi) = E_mu sum_t (rho_t - 1 - log rho_t),

for E_mu[rho_t | y_<t] = 1 where mu draws all that pi does (an engine that cuts the tail is
farther away: of a top-p of .95 this says .00018 nats a token); no term is negative
(Schulman 2020, the estimator k3). A weight rho = prod_t rho_t would make a completion count
as one of pi. Weighted so, N completions are worth ESS = (sum rho)^2 / sum rho^2 of pi's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mse_lab.arrays import Floats

# Beyond these nats a token's ratio has no meaning, and exp overflows.
MOST_NATS = 60.0


@dataclass(frozen=True)
class Mismatch:
    """How far an engine is from the policy."""

    completions: int  # Completions whose probabilities are known under both.
    kl_per_token: float  # KL(mu || pi), nats a token.
    effective: float  # ESS over completions; 1 where both laws are the same.


def token_divergences(log_ratios: Floats) -> Floats:
    """Compute rho_t - 1 - log rho_t of tokens.

    >>> token_divergences(np.log([1.0, 2.0])).round(3)
    array([0.   , 0.307])
    """
    kept = np.clip(log_ratios, -MOST_NATS, MOST_NATS)
    return np.asarray(np.expm1(kept) - log_ratios)


def measure_mismatch(
    log_ratios_N: Floats, divergences_N: Floats | Sequence[float], tokens: int
) -> Mismatch:
    """Measure the mismatch by log rho and the sum of k3 of each completion.

    Args:
        log_ratios_N: log rho of each completion.
        divergences_N: The sum of `token_divergences` of each completion.
        tokens: How many tokens they have in all.

    >>> measure_mismatch(np.log([2.0, 1.0]), [0.307, 0.0], 4)
    Mismatch(completions=2, kl_per_token=0.07675, effective=0.9)
    """
    weights_N = np.exp(log_ratios_N - log_ratios_N.max())
    effective = weights_N.sum() ** 2 / (weights_N @ weights_N) / len(weights_N)
    kl = float(np.sum(divergences_N)) / tokens
    return Mismatch(len(log_ratios_N), kl, float(effective))
