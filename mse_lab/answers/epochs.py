"""Which group size is best where training deals its prompts out in epochs.

The noise of prompts then cancels in part (`mse_lab.mse.epochs`), so larger groups may pay.
How much cancels depends on the step times the curvature, which no measurement of gradients
knows. So the answer is given for both extremes, and for a training whose steps together go
nine tenths of the way to the maximum.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from mse_lab.answers.felt import Optimizer
from mse_lab.mse.epochs import best_in_epochs, charged_size
from mse_lab.mse.intervals import Estimate
from mse_lab.mse.regret import SIZES, TOLERANCE

# Shares of the way: each step goes all of it, the training goes most, hardly any.
WAYS = (1.0, 0.9, 0.0)

# The pull of a step that forgets the ones before, and of one that forgets nothing.
_LONG, _SHORT = 50.0, 1e-6


class Training(NamedTuple):
    """What a user says of the training."""

    optimizer: Optimizer = "adamw"  # What takes the steps.
    prompts: int | None = None  # How many prompts the epochs have; None if not said.
    epochs: float = 1.0  # How often each prompt comes, at the recommended group size.


NOT_SAID = Training()


class InEpochs(NamedTuple):
    """The best group size for steps of one length."""

    # Share of the way to the maximum that the training goes: 1 where each step goes all of
    # it, 0 where all together go hardly any.
    way: float
    best: Estimate  # G*.
    recommended: int  # The smallest power of two that costs at most 5% more than the least.


class Epochs(NamedTuple):
    """The best group sizes of a training in epochs."""

    prompts: int  # P, those that are trained on.
    epochs: float  # How often each of them comes, at the size of the advice.
    each: float  # Completions of a prompt in all of the training, whatever the group size.
    rows: tuple[InEpochs, ...]  # From long steps to short ones.


def best_sizes_in_epochs(
    best: Estimate,
    constants: Mapping[str, float],
    size: int,
    each_step: float,
    epochs: float,
) -> tuple[InEpochs, ...]:
    """Give the best group sizes, at one number of steps and of completions in a step.

    Args:
        best: G* where prompts are drawn anew.
        constants: c1, c2 and c3.
        size: Group size at which each prompt comes `epochs` times.
        each_step: N/P, completions of each prompt in a step.
        epochs: How often each prompt comes.
    """
    steps = max(epochs * size / each_step, 1.0)
    c1, c2, c3 = (constants[name] for name in ("c1", "c2", "c3"))

    def row(way: float) -> InEpochs:
        pull = _LONG if way == 1 else max(-math.log1p(-way) / steps, _SHORT)
        costs = {}
        for group_size in SIZES:
            charged = float(charged_size(group_size, each_step, steps, pull))
            costs[group_size] = max(c1, 0.0) * charged + c2 + c3 / (group_size - 1)
        most = (1 + TOLERANCE) * min(costs.values())
        recommended = next(one for one, cost in costs.items() if cost <= most)
        ends = (best_in_epochs(end, each_step, steps, pull) for end in best)
        return InEpochs(way, Estimate(*ends), recommended)

    return tuple(map(row, WAYS))
