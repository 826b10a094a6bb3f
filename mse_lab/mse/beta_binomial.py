"""Beta-binomial: values of prompts as a Beta(a, b), for group sizes above those drawn.

With n completions of a prompt the share of zero-variance groups can be estimated without a
model up to G = n only: for G > n the law of n draws does not determine E[V^G]. If the
values V of prompts follow a Beta(a, b), the number of right completions among n is
Beta-binomial, and

    E[V^G + (1-V)^G] = B(a+G, b)/B(a, b) + B(a, b+G)/B(a, b).

a and b maximise the likelihood. Two laws of V that agree on groups of n may differ at
larger G, so this is a model.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln, digamma

from mse_lab.arrays import Floats, Ints

# Bounds of log a and log b: from spikes at 0 and 1 to values that are all alike.
_BOUNDS = (-9.0, 12.0)


class BetaBinomial(NamedTuple):
    """The law of values, Beta(a, b)."""

    a: float
    b: float

    def zero_variance(self, group_size: int) -> float:
        """Share of groups whose rewards are all equal.

        >>> round(BetaBinomial(1.0, 1.0).zero_variance(2), 4)  # 2 int v^2 dv
        0.6667
        """
        a, b, base = self.a, self.b, betaln(self.a, self.b)
        right, wrong = betaln(a + group_size, b), betaln(a, b + group_size)
        return float(np.exp(right - base) + np.exp(wrong - base))


def fit_beta_binomial(
    right_K: Ints, sizes_K: Ints, weights_K: Floats, start: BetaBinomial | None = None
) -> BetaBinomial:
    """Fit the law of values to groups, of whose completions some are right.

    At least one group has two completions or more; `weights_K` says how often each group
    occurred. The search begins at `start`, by default at two laws with the groups' mean.
    """
    wrong_K, parts_K = sizes_K - right_K, weights_K / weights_K.sum()

    def loss(logs: Floats) -> tuple[float, Floats]:
        """The loss, up to a constant, and its gradient in the logarithms."""
        a, b = np.exp(logs)
        fitted = betaln(a + right_K, b + wrong_K) - betaln(a, b)
        both = digamma(a + b) - digamma(a + b + sizes_K)
        slopes = [digamma(a + right_K) - digamma(a), digamma(b + wrong_K) - digamma(b)]
        gradient = [
            -scale * float(parts_K @ (slope + both))
            for scale, slope in zip((a, b), slopes, strict=True)
        ]
        return -float(parts_K @ fitted), np.array(gradient)

    mean = float((weights_K * right_K).sum() / (weights_K * sizes_K).sum())
    mean = min(max(mean, 1e-3), 1 - 1e-3)
    starts = [np.log([size * mean, size * (1 - mean)]) for size in (0.5, 5.0)]
    fits = [
        minimize(
            loss,
            np.clip(begin, *_BOUNDS),
            jac=True,
            bounds=[_BOUNDS] * 2,
            method="L-BFGS-B",
        )
        for begin in (starts if start is None else [np.log(start)])
    ]
    a, b = np.exp(min(fits, key=lambda fit: fit.fun).x)
    return BetaBinomial(float(a), float(b))
