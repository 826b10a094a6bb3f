"""Evidence: what advice needs to know of prompts that were measured, and how.

A run has two pools of each prompt, and its replicates judge estimators that have no law; a
few samples have neither replicates nor a reference. What both give is named here once.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from mse_lab.answers.prompt_means import Kind
from mse_lab.answers.run_regime import Regime
from mse_lab.arrays import Floats
from mse_lab.estimators import Estimator
from mse_lab.mse.budget import Constants, Population
from mse_lab.mse.intervals import UNKNOWN, Estimate
from mse_lab.mse.laws import Law
from mse_lab.mse.metric import MetricPools
from mse_lab.mse.moments import Moments
from mse_lab.mse.regret import Choice
from mse_lab.mse.stopping import Stopped
from mse_lab.probe.schema import EstimatorEntry


class Evidence(Protocol):
    """Prompts that were measured, and what is known of the distribution they are from."""

    @property
    def name(self) -> str:
        """The run's, or the probe's."""

    @property
    def prompt_count(self) -> int:
        """P."""

    @property
    def level(self) -> float:
        """Coverage of intervals."""

    @property
    def seed(self) -> int:
        """The run's."""

    @property
    def resamples(self) -> int:
        """Draws where an interval is drawn."""

    @property
    def entries(self) -> tuple[EstimatorEntry, ...]:
        """Estimators of the probe."""

    @property
    def held(self) -> bool:
        """Whether all built-in checks hold."""

    @property
    def warnings(self) -> Sequence[str]:
        """What a reader should know, a sentence each."""

    @property
    def law_only(self) -> bool:
        """Whether no replicate confirms the laws."""

    @property
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1."""

    @property
    def rewards(self) -> Sequence[Floats]:
        """Rewards of each prompt's completions."""

    @property
    def reward_variance_P(self) -> Floats:
        """Var(Z) of each prompt."""

    @property
    def moments(self) -> Moments:
        """Moments of each prompt, (P,)."""

    @property
    def population(self) -> Population:
        """The distribution that the prompts are drawn from."""

    @property
    def constants(self) -> dict[str, Estimate]:
        """c1 to c3 and their like, with intervals."""

    @property
    def best_group_size(self) -> Estimate:
        """G*; unknown where no reward varies."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Group sizes of two or more."""

    @property
    def choice(self) -> Choice:
        """The recommended group size, and what is known of its regret."""

    @property
    def regime(self) -> Regime:
        """On which side of vanilla it is."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Where the noise sits; empty where that is not known."""

    @property
    def completions(self) -> int | None:
        """How many were drawn until the answer was known; None of a finished run."""

    @property
    def differentiated(self) -> int | None:
        """How many of them were differentiated; None of a finished run."""

    @property
    def stopped(self) -> Stopped | None:
        """Why no more were drawn; None of a finished run."""

    @property
    def wanted(self) -> int | None:
        """How many it takes to know G*; None of a finished run, or if not in sight."""

    @property
    def metric(self) -> MetricPools | None:
        """What was measured in another metric than the plain one, if anything."""

    def find_law(self, estimator: Estimator, size: int) -> Callable[[Moments], Law] | None:
        """Find an estimator's exact law, where it has one that these moments give."""


def constants_of(population: Population, level: float) -> dict[str, Estimate]:
    """c1 to c3 and their like, by the names of `Constants`, with intervals."""
    return {name: population.constant(name, level) for name in Constants._fields}


def best_group_size_of(population: Population, level: float) -> Estimate:
    """G*; unknown where no reward varies."""
    if population.constants.c3.item() <= 0:
        return UNKNOWN
    return population.best_group_size(level)
