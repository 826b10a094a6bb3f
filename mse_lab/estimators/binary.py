"""Rewards that are right or wrong, 1 or 0, and estimators that need them to be."""

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.errors import InputError


def is_binary(rewards: Floats) -> bool:
    """Whether all rewards are 0 or 1."""
    return bool(np.isin(rewards, (0, 1)).all())


def check_binary(rewards: Floats, name: str) -> None:
    """See that every reward is 0 or 1, for the estimator of a name.

    Raises:
        InputError: A reward is neither.
    """
    if not is_binary(rewards):
        other = rewards[~np.isin(rewards, (0, 1))].flat[0]
        raise InputError(
            f"estimators: {name} needs rewards of 0 or 1, not {other:g}; remove it"
        )
