"""Groups: all that an estimator may look at; whether their rewards are all 0 or 1."""

from dataclasses import dataclass

import numpy as np

from mse_lab.arrays import Floats, Ints
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
    """

    rewards_PRG: Floats
    lengths_PRG: Ints
    norms2_PRG: Floats
    value_P: Floats
    best_constant_PR: Floats


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
