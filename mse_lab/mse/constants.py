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


def one_baseline(mean: Mean, baseline: Floats) -> Floats:
    """E[A - 2 b B + b^2 S - ||g||^2] at one baseline b of all prompts, (S,)."""
    vanilla = mean(lambda one: one.constant_baseline(0.0))
    weighted, norm2 = mean(attrgetter("reward_norm2")), mean(attrgetter("norm2"))
    return vanilla - 2 * baseline * weighted + baseline**2 * norm2


def find_constants(mean: Mean, pairs: Floats, size: float) -> Constants:
    """Evaluate the constants of every sample of prompts, (S,), of `size` in all.

    `mean` averages a moment, `pairs` are mean <g(x), g(x')> of different prompts. Where the
    prompts are all that there are, c1 is the spread of training's draws among them:
    (1 - 1/size) of the unbiased mean ||g(x)||^2 - <g(x), g(x')>.
    """
    each = mean(attrgetter("gradient2"))
    gradient2 = pairs + (each - pairs) / size
    return Constants(
        c1=each - gradient2,
        c2=mean(attrgetter("trace_oracle")),
        c3=mean(attrgetter("zeta")),
        vanilla=mean(lambda one: one.constant_baseline(0.0)),
        batch_mean=one_baseline(mean, mean(attrgetter("value"))),
        best_constant=mean(attrgetter("trace_best")),
        gradient2=gradient2,
    )
