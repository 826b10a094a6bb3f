"""The baseline that fits: alpha, lambda and G of least cost, and its price.

For w_i = Z_i - alpha - lambda m_i, m_i the mean of the group's others, over random prompts

    N MSE = c1 G + E[A - 2 b B + b^2 S - ||g||^2] + lambda^2 c3/(G-1),  b = alpha + lambda V

with letters as in `moments.py` and `prompt_table.py`. At a given G the least is where

    [ E S     E VS               ] [alpha ]   [ E B  ]
    [ E VS    E V^2 S + c3/(G-1) ] [lambda] = [ E VB ]

and at G = 1, without a group, at lambda = 0 and alpha = E B / E S: the mean reward, with
completions weighted by their squared score norm. N ||g||^2, which steps cost beside it,
is the same for all, so the best does not depend on N. All moments are unbiased, from the
pools of a run or from few completions, whatever the rewards.

The value at the optimum is too small, for the two numbers were chosen by it. So each prompt
is priced at the alpha and lambda that were fitted to the others; the mean of that is the
price of a prompt that the fit has not seen. Its samples leave prompts out of the mean
alone: what a prompt does to the fits of the others is of second order at an optimum.
"""

from collections.abc import Iterable
from typing import NamedTuple

from mse_lab.arrays import Floats, divide
from mse_lab.config.schema import EstimatorEntry
from mse_lab.mse.laws import affine_law
from mse_lab.mse.loss import Aim
from mse_lab.mse.prompt_table import PromptTable

# Digits of the two numbers that a user types.
DIGITS = 3


class Baseline(NamedTuple):
    """The best affine baseline in groups of a size, over samples of prompts, (S,)."""

    group_size: int
    alphas: Floats
    lams: Floats
    aim: Aim  # Where it points, and how noisy it is on prompts left out of the fit.

    @property
    def alpha(self) -> float:
        """Fitted to all prompts."""
        return float(f"{self.alphas[0]:.{DIGITS}g}")

    @property
    def lam(self) -> float:
        """Lambda, fitted to all prompts; 0 at G = 1."""
        return float(f"{self.lams[0]:.{DIGITS}g}")

    @property
    def entry(self) -> EstimatorEntry:
        """The estimator, as in a probe."""
        if self.lam:
            return {"name": "affine", "alpha": self.alpha, "lambda": self.lam}
        return {"name": "constant", "alpha": self.alpha}


def _solve(table: PromptTable, size: int) -> tuple[Floats, Floats]:
    """Solve for alpha and lambda by every sample of prompts, (S,)."""
    moments, mean = table.moments, table.prompt_samples.means
    norm2, weighted = mean(moments.norm2), mean(moments.reward_norm2)
    if size == 1:
        return divide(weighted, norm2), 0 * norm2
    mixed, by_value = mean(moments.value_norm2), mean(moments.value_reward_norm2)
    own = mean(moments.value2_norm2) + table.samples.c3 / (size - 1)
    lams = divide(norm2 * by_value - mixed * weighted, norm2 * own - mixed**2)
    return divide(weighted - lams * mixed, norm2), lams


def fit_at(table: PromptTable, size: int) -> Baseline:
    """Fit alpha and lambda at a group size, and price them on prompts left out."""
    alphas, lams = _solve(table, size)
    alpha_P, lam_P = (samples[1 : 1 + table.prompts] for samples in (alphas, lams))
    mse_P = affine_law(alpha_P, lam_P, table.moments, size)
    return Baseline(size, alphas, lams, Aim.of_prompts(table, mse_P, size))


def fit_baseline(table: PromptTable, sizes: Iterable[int]) -> Baseline:
    """Fit the best affine baseline in groups of one of some sizes.

    Args:
        table: The prompts that were measured, by a run or by few completions.
        sizes: The sizes to choose from; [1] gives the constant without a group.

    Returns:
        The one of least price, `baseline.aim.cost(N)` at N completions a step.
    """
    fitted = [fit_at(table, size) for size in sizes]
    return min(fitted, key=lambda one: float(one.aim.noise[0]))
