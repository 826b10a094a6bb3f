"""Rewards that must be right or wrong, 1 or 0."""

from mse_lab.arrays import Floats
from mse_lab.errors import InputError


def check_binary(rewards: Floats, name: str) -> None:
    """See that every reward is 0 or 1.

    Args:
        rewards: Of any shape.
        name: Of the estimator that needs it.

    Raises:
        InputError: A reward is neither.

    >>> import numpy as np
    >>> check_binary(np.array([0.0, 1.0, 1.0]), "maxrl")
    """
    other = rewards[(rewards != 0) & (rewards != 1)]
    if other.size:
        raise InputError(
            f"estimators: {name} needs rewards of 0 or 1, not {other.flat[0]:g}; remove it"
        )
