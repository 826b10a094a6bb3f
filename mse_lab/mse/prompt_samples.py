"""Samples of prompts: all of them, all but each (the jackknife), and draws (the bootstrap).

Prompts are drawn at random, so a figure of P of them is a statistic of P independent draws.
Leaving prompts out one at a time shows how the figure varies, and how biased a ratio is.
Arrays (S,) hold a figure of all prompts, then of all but each, then of B draws, if any.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from mse_lab.arrays import LARGEST, Floats, divide
from mse_lab.mse.intervals import Statistic


@dataclass(frozen=True)
class PromptSamples:
    """S = 1 + P + B samples of P prompts."""

    counts_BP: Floats  # How often each prompt is in each draw of the bootstrap.

    @classmethod
    def without_draws(cls, prompts: int) -> Self:
        """Take all prompts, and all but each."""
        return cls(np.zeros((0, prompts)))

    @property
    def prompts(self) -> int:
        """How many prompts there are."""
        return self.counts_BP.shape[1]

    def means(self, values_P: Floats) -> Floats:
        """Mean over the prompts of each sample, (S,)."""
        total, count = values_P.sum(), self.prompts
        drawn = divide(self.counts_BP @ values_P, self.counts_BP.sum(1))
        left_out = divide(total - values_P, count - 1)
        return np.concatenate([[total / count], left_out, drawn])

    def mean_products(self, apart_PP: Floats, left_P: Floats, right_P: Floats) -> Floats:
        """Average left_x <g(x), g(x')> right_x' over pairs x != x' of each sample, (S,).

        The products `apart_PP` are zero on the diagonal.
        """
        rows_P, columns_P = left_P * (apart_PP @ right_P), (left_P @ apart_PP) * right_P
        left_BP, right_BP = self.counts_BP * left_P, self.counts_BP * right_P
        drawn = ((left_BP @ apart_PP) * right_BP).sum(1)
        pairs_B = self.counts_BP.sum(1) ** 2 - (self.counts_BP**2).sum(1)
        whole = self.mean_of_pairs(rows_P, columns_P)
        return np.concatenate([whole, divide(drawn, pairs_B)])

    def mean_of_pairs(self, rows_P: Floats, columns_P: Floats) -> Floats:
        """Average products over pairs x != x' of each sample, by sums over the others x'.

        Without draws of the bootstrap, which take each product.
        """
        count, total = self.prompts, rows_P.sum()
        others = total - rows_P - columns_P
        pairs, fewer = count * (count - 1), (count - 1) * (count - 2)
        return np.concatenate([[divide(total, pairs)], divide(others, fewer)])

    def without_bias(self, ratio: Floats) -> Floats:
        """Subtract from a ratio (S,) its bias by the jackknife."""
        left_out = ratio[1 : 1 + self.prompts]
        return ratio - (self.prompts - 1) * (left_out.mean() - ratio[0])


def jackknife(samples: Floats, prompts: int) -> Statistic:
    """Make a statistic of a figure, (S,): its value and each prompt's contribution."""
    differences_P = (prompts - 1) * (samples[0] - samples[1 : 1 + prompts])
    # Those of a ratio may be large, and their fourth powers must be finite.
    bounded = np.clip(differences_P, -(LARGEST**3), LARGEST**3)
    return Statistic(float(samples[0]), {"prompts": bounded[None]}, {})


def count_carriers(parts_P: Floats) -> float:
    """Estimate how many prompts carry a sum: (sum |w|)^2 / sum w^2 (Kish), at least one.

    >>> count_carriers(np.array([2.0, 1.0, -1.0, 0.0]))  # 16 / 6, of 4
    2.6666666666666665
    """
    if not parts_P.any():
        return 1.0
    shares = abs(parts_P) / abs(parts_P).max()
    return max(1.0, float(shares.sum() ** 2 / (shares**2).sum()))


def mean_over_prompts(values_P: Floats) -> Statistic:
    """Estimate the mean of a number over random prompts."""
    return Statistic(float(values_P.mean()), {"prompts": values_P[None]}, {})


def raise_to_zero(square: Floats) -> Floats:
    """Raise a mean square's estimates, (S,), so that that of all prompts is not negative.

    All samples are raised by the same amount: clipped at zero, they would not vary.
    """
    return square - min(square[0], 0.0)
