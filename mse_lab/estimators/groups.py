"""Groups: all that an estimator may look at; deviations and spreads of their rewards.

The mean of equal numbers may miss them by 1e-17, and a spread that should be 0 then is a
residue of that size: divided by it, a residue becomes a weight (a public trainer had one
multiplied by 4,000). So the least reward is taken off first, which changes neither a
deviation nor a spread, and leaves exact zeros where max == min.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field

from mse_lab.arrays import LARGEST, Floats, Ints
from mse_lab.config.schema import refuse_truth
from mse_lab.errors import InputError


@dataclass(frozen=True)
class Groups:
    """What an estimator may look at: R groups of G completions for each of P prompts.

    Replicate r of one prompt and replicate r of another form one batch.

    Attributes:
        rewards_PRG: Rewards.
        lengths_PRG: Tokens, end token included.
        norms2_PRG: Squared score norms ||W_i||^2.
        value_P: V of each prompt, which only an oracle knows.
        best_constant_PR: E[Z ||W||^2] / E||W||^2 of each prompt, from its other groups.
        logit_norms2_PRG: Squared norms of the logits' scores, the sum over tokens of
            1 - 2 p_y + sum_v p_v^2; NaN where unknown, None if all are.
    """

    rewards_PRG: Floats
    lengths_PRG: Ints
    norms2_PRG: Floats
    value_P: Floats
    best_constant_PR: Floats
    logit_norms2_PRG: Floats | None = None

    @classmethod
    def of_rewards(cls, rewards_RG: Floats) -> Self:
        """Take groups of one prompt of which the rewards alone count."""
        return cls(
            rewards_PRG=rewards_RG[None],
            lengths_PRG=np.ones((1, *rewards_RG.shape), dtype=np.int64),
            norms2_PRG=np.ones((1, *rewards_RG.shape)),
            value_P=np.zeros(1),
            best_constant_PR=np.zeros((1, len(rewards_RG))),
        )


def two_values(rewards: Iterable[Floats]) -> tuple[float, float] | None:
    """Find the two values that all rewards have, ascending; None for others than two.

    Rewards that are all 0, or all 1, are of 0 and 1.

    >>> two_values([np.array([1.0, -1.0]), np.array([-1.0])]), two_values([np.ones(3)])
    ((-1.0, 1.0), (0.0, 1.0))
    """
    values = np.unique(np.concatenate([one.ravel() for one in rewards]))
    if is_binary(values):
        return 0.0, 1.0
    return (float(values[0]), float(values[1])) if len(values) == 2 else None


def is_binary(rewards: Floats) -> bool:
    """Whether all rewards are 0 or 1."""
    return bool(np.isin(rewards, (0, 1)).all())


def check_binary(rewards: Floats, name: str) -> None:
    """Refuse, in the name of an estimator, rewards that are neither 0 nor 1."""
    if not is_binary(rewards):
        other = rewards[~np.isin(rewards, (0, 1))].flat[0]
        raise InputError(
            f"estimators: {name} needs rewards of 0 or 1, not {other:g}; remove it"
        )


# What is multiplied with rewards, or subtracted from them.
Number = Annotated[
    float,
    BeforeValidator(refuse_truth),
    Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False),
]

# An eps is added to what weights are divided by.
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

# 1 for the sample's standard deviation, 0 for the population's: in a group of two 0.707
# times the first.
Ddof = Literal[0, 1]
Axes = int | tuple[int, ...]


def deviations(values: Floats, axes: Axes = -1) -> Floats:
    """Subtract the mean over `axes`.

    >>> deviations(np.array([0.1, 0.1, 0.1])).tolist()
    [0.0, 0.0, 0.0]
    >>> deviations(np.array([1.0, 0.0, 0.0, 0.0])).tolist()
    [0.75, -0.25, -0.25, -0.25]
    """
    shifted = values - values.min(axis=axes, keepdims=True)
    return shifted - shifted.mean(axis=axes, keepdims=True)


def spread(values: Floats, axes: Axes = -1, ddof: Ddof = 1) -> Floats:
    """Measure the standard deviation over `axes`, which stay with length one.

    The sum of squares is divided by n - ddof; exactly 0 where all values are equal.

    >>> spread(np.array([1.0, 0.0, 0.0, 0.0])).tolist()
    [0.5]
    """
    squares = (deviations(values, axes) ** 2).sum(axis=axes, keepdims=True)
    return np.sqrt(squares / max(values.size // squares.size - ddof, 1))
