"""Effort: how many runs, how long, from which seed; and what all runs share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.probe.streams import stream
from mse_lab.studies.theory.ascent import Rule, Steps, ascend
from mse_lab.studies.theory.bandit import Bandit

DELAY = 200  # i0 of the steps beta / (i + i0), which keeps the first ones small.


@dataclass(frozen=True)
class Effort:
    """How much is simulated."""

    seed: int = 0  # Of all draws.
    runs: int = 3000  # R, alike and independent.
    steps: tuple[int, int] = (500, 4000)  # Two lengths n of a run.

    def ascents(
        self, bandit: Bandit, rule: Rule, steps: Steps, kept: Sequence[int],
        start_D: Floats, name: str,
    ) -> Floats:  # fmt: skip
        """Where runs are after each number of steps that is kept, (T, D, R)."""
        draws = stream(self.seed, "theory", name, *map(str, vars(rule).values()))
        start_DR = np.repeat(start_D[:, None], self.runs, 1)
        return ascend(bandit, rule, steps, kept, start_DR, draws)


def gaps(bandit: Bandit, theta_TDR: Floats, highest: float | None = None) -> Floats:
    """Delta = J* - J, (T, R); J* is that of the maximum unless it is given."""
    top = bandit.value(bandit.maximum_D) if highest is None else highest
    return np.array([top - bandit.value(theta_DR) for theta_DR in theta_TDR])
