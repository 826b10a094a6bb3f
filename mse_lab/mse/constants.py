"""The constants of a prompt distribution: what a gradient's error is made of.

B prompts drawn from the prompt distribution, G completions each, N = B G in all. The
aggregate's MSE against the gradient of the whole distribution is, for GRPO-type,

    MSE = c1/B + c2/(B G) + c3/(B G (G-1)) = (c1 G + c2 + c3/(G-1)) / N,

with c1 = E||g(X) - g||^2, c2 = E[T], c3 = E[zeta], least at G* = 1 + sqrt(c3/c1), whatever
N. This is Proposition 3 and Theorem 7 of arXiv 2603.01162 with exact constants; the
paper's G* = sqrt(c3/c1) is the form for large G. A constant baseline has c3 = 0, so its
best G is 1.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.mse.moments import Moments
from mse_lab.mse.prompt_samples import raise_to_zero


class Constants(NamedTuple):
    """c1, c2 and c3, and the constants of other estimators.

    They are arrays over samples of prompts: of all prompts, (1,), or (S,), as in
    `prompt_samples.py`.
    """

    c1: Floats  # E||g(X) - g||^2, what only more prompts reduce.
    c2: Floats  # E[T].
    c3: Floats  # E[zeta], the price of a baseline from the group.
    vanilla: Floats  # E[A - ||g||^2], which vanilla has for c2.
    # The same for one baseline E[Z] of all prompts, the mean of a large batch.
    batch_mean: Floats
    best_constant: Floats  # The same for a baseline b* of each prompt.
    # ||E g(X)||^2 of the population; `Pools.aggregate_norm2` is that of the run's prompts,
    # larger by c1/P on average.
    gradient2: Floats

    @property
    def nonnegative_c1(self) -> Floats:
        """c1, raised to be part of a mean square where that of all prompts is negative."""
        return raise_to_zero(self.c1)


# Positive estimates; those of the squares c1 and gradient2 are differences.
POSITIVE_CONSTANTS = ("c2", "c3", "vanilla", "batch_mean", "best_constant")

# Averages a moment over prompts.
Mean = Callable[[Callable[[Moments], Floats]], Floats]


def find_constants(mean: Mean, pairs: Floats, size: float) -> Constants:
    """Evaluate the constants of every sample of prompts, (S,), of `size` in all.

    `mean` averages a moment, `pairs` are mean <g(x), g(x')> of different prompts. Where the
    prompts are all that there are, c1 is the spread of training's draws among them:
    (1 - 1/size) of the unbiased mean ||g(x)||^2 - <g(x), g(x')>.
    """
    each = mean(attrgetter("gradient2"))
    gradient2 = pairs + (each - pairs) / size
    value, vanilla = mean(attrgetter("value")), mean(lambda one: one.constant_baseline(0.0))
    weighted, norm2 = mean(attrgetter("reward_norm2")), mean(attrgetter("norm2"))
    return Constants(
        c1=each - gradient2,
        c2=mean(attrgetter("trace_oracle")),
        c3=mean(attrgetter("zeta")),
        vanilla=vanilla,
        batch_mean=vanilla - 2 * value * weighted + value**2 * norm2,
        best_constant=mean(attrgetter("trace_best")),
        gradient2=gradient2,
    )


def mse_times_budget(
    estimator: str, constants: Constants, group_size: Floats | float
) -> Floats:
    """N x MSE at a budget of N completions; c1 is 0 where its estimate is negative.

    c1 G + c2 + c3 / (G-1) for `grpo`; for `vanilla`, `oracle`, `batch-mean` and
    `best-constant` c1 G and the constant of that name.
    """
    size = np.asarray(group_size, dtype=float)
    between = constants.nonnegative_c1 * size
    if estimator == "grpo":
        return between + constants.c2 + constants.c3 / (size - 1)
    name = "c2" if estimator == "oracle" else estimator.replace("-", "_")
    return np.asarray(between + getattr(constants, name))
