"""What a finished run has to say: MSEs, laws and moments of the aggregate, with draws."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from mse_lab.arrays import Floats
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator
from mse_lab.mse.budget import Population
from mse_lab.mse.intervals import Statistic
from mse_lab.mse.moments import Moments
from mse_lab.mse.pools import Pools
from mse_lab.mse.replicates import Key
from mse_lab.probe.streams import stream
from mse_lab.results.analysis import Analysis
from mse_lab.results.finished_run import read_result

ESTIMATORS = ("vanilla", "grpo", "oracle", "best-constant")

# Of runs with norms only.
UNTESTED = "Without replicates nothing can tell the law from the truth."
NOTHING = "no replicates"
BY_LAW = "By the law alone, for there are no replicates."


@dataclass(frozen=True)
class Evidence:
    """One run.

    The aggregate is the mean over the P prompts of the run, each with a group of its own.

    Attributes:
        result: The run, with the estimators of `ESTIMATORS` at group sizes of two or more.
    """

    result: Analysis

    @property
    def name(self) -> str:
        """The run's name."""
        return self.result.name

    @property
    def pools(self) -> Pools:
        """Its pools."""
        return self.result.pools

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Its group sizes of two or more, increasing."""
        return self.result.group_sizes

    @property
    def level(self) -> float:
        """Coverage of intervals."""
        return self.result.level

    @property
    def alpha(self) -> float:
        """Level of the tests."""
        return 1 - self.level

    def stream(self, *purpose: str) -> np.random.Generator:
        """Open a random stream of this run."""
        return stream(self.result.seed, "claims", self.name, *purpose)

    @cached_property
    def population(self) -> Population:
        """The distribution that the prompts are drawn from."""
        return Population(self.pools)

    @property
    def moments(self) -> Moments:
        """Moments of each prompt, (P,)."""
        return self.result.curves.moments

    @cached_property
    def has_replicates(self) -> bool:
        """Whether the run has more than norms."""
        return self.pools.has_cross_products

    @property
    def source(self) -> str:
        """What `mse` comes from."""
        return "replicates" if self.has_replicates else "law"

    def explain(self, reason: str) -> str:
        """Add to a reason what it rests on, where that is not the replicates."""
        return reason if self.has_replicates else f"{reason} {BY_LAW}"

    @cached_property
    def _measured(self) -> dict[Key, Statistic]:
        return {
            key: measured.statistic()
            for key, (measured, _) in self.result.points.items()
            if measured is not None
        }

    @cached_property
    def _laws(self) -> dict[Key, Statistic]:
        return {}

    def mse(self, estimator: str, group_size: int) -> Statistic:
        """Measure the aggregate's MSE: by the law where there are no replicates."""
        if self.has_replicates:
            return self._measured[Key(estimator, group_size)]
        return self.law(estimator, group_size)

    def law(self, estimator: str, group_size: int) -> Statistic:
        """Evaluate the aggregate's exact law; at G = 1 its limit of G x MSE."""
        key = Key(estimator, group_size)
        if key not in self._laws:
            law = self.result.curves.by_law(find_estimator(estimator), group_size)
            assert law is not None  # all four have one
            self._laws[key] = law.statistic()
        return self._laws[key]

    @property
    def oracle_trace(self) -> Statistic:
        """The aggregate's T: (1/P^2) sum_x T(x)."""
        return self.law("oracle", 1)

    @property
    def vanilla_trace(self) -> Statistic:
        """The aggregate's A - ||g||^2, G x MSE of vanilla."""
        return self.law("vanilla", 1)

    @cached_property
    def zeta(self) -> Statistic:
        """The aggregate's zeta, the sum over prompts / P^2: at G = 2 half the law's gap."""
        return (self.law("grpo", 2) - self.law("oracle", 2)) * 2

    def describe_baselines(self) -> str:
        """Say where the best baseline lies, means over prompts weighted by E||W||^2."""
        best, value = (
            self._weighted(one) for one in (self.moments.best_baseline, self.moments.value)
        )
        return f"the best baseline b* is {best:.2f} and the value V {value:.2f}"

    def describe_distances(self) -> str:
        """Say how far b* is from 0 and from V, weighted alike."""
        best, value = self.moments.best_baseline, self.moments.value
        zero, oracle = (np.sqrt(self._weighted(one**2)) for one in (best, value - best))
        return f"b* is {zero:.2f} from vanilla's 0 and {oracle:.2f} from the oracle's V"

    def _weighted(self, values_P: Floats) -> float:
        """Mean over prompts weighted by E||W||^2, which is how the aggregate sees them."""
        weights_P = self.moments.norm2
        total = float(weights_P.sum())
        return float(values_P @ weights_P) / total if total > 0 else float("nan")


def gather(result: Analysis) -> Evidence:
    """Take what the claims need from an analysed run, at its own settings.

    Raises:
        InputError: It has no group size of two or more.
    """
    sizes = tuple(sorted(size for size in result.group_sizes if size > 1))
    if not sizes:
        raise InputError(
            f"group_sizes = {list(result.group_sizes)}: claims need one of two or more"
        )
    return Evidence(replace(result, group_sizes=sizes, entries=ESTIMATORS))


def read_evidence(folder: Path) -> Evidence:
    """Read a finished run.

    Raises:
        InputError: The folder holds tables only, or nothing; or no group of two.
    """
    result = read_result(folder)
    try:
        return gather(result)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
