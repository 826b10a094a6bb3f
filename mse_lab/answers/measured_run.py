"""A measured run, as every answer and the page see it.

What several of them show (a paired ratio, c1 to c3, G*) is computed here, once and with one
interval. The aggregate is the mean over the P prompts of the run, each with a group of its
own; `population` is the distribution that these prompts are drawn from.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mse_lab.arrays import Floats
from mse_lab.estimators import Estimator, find_estimator, find_estimators
from mse_lab.mse.curves import Point, measure_curves
from mse_lab.mse.intervals import Estimate, Statistic
from mse_lab.mse.moments import Moments
from mse_lab.mse.regime import Regime, find_regime, measure_norm_ratios
from mse_lab.mse.replicates import Key, measure_errors
from mse_lab.probe.schema import Probe
from mse_lab.results.analysis import Analysis
from mse_lab.results.checks import Check, Checks
from mse_lab.results.finished_run import read_probe, read_result
from mse_lab.results.folder import ResultsFolder

# What the statements and the ratios compare; each has a law for any rewards.
COMPARED_ESTIMATORS = ("vanilla", "grpo", "oracle", "best-constant")


class MeasuredRun(Analysis):
    """The analysis of one run, or of anybody's pools, with what several answers need."""

    @property
    def where(self) -> str:
        """What the message of a refusal begins with."""
        return ""

    @property
    def held(self) -> bool:
        """Whether all built-in checks hold; bare pools come without checks that fail."""
        return True

    @property
    def moments(self) -> Moments:
        """Moments of each prompt, (P,)."""
        return self.curves.moments

    @cached_property
    def law_only(self) -> bool:
        """Whether products are unknown, so that laws stand for replicates everywhere."""
        return not self.pools.has_cross_products

    @property
    def sizes(self) -> tuple[int, ...]:
        """Group sizes of two or more, which all compared estimators are defined for."""
        return tuple(sorted(size for size in self.group_sizes if size > 1))

    @cached_property
    def _compared_estimators(self) -> list[Estimator]:
        return find_estimators(COMPARED_ESTIMATORS, self.sizes)

    @cached_property
    def compared_errors(self) -> dict[Key, Floats]:
        """Squared errors of every group of the compared estimators, (P, R)."""
        return measure_errors(self.pools, self._compared_estimators, self.sizes)

    @cached_property
    def compared(self) -> dict[Key, Point]:
        """The curves of the compared estimators: measured, and by law."""
        return measure_curves(self.curves, self._compared_estimators, self.compared_errors)

    @cached_property
    def _measured(self) -> dict[Key, Statistic]:
        curves = {key: measured for key, (measured, _) in self.compared.items()}
        return {key: curve.statistic() for key, curve in curves.items() if curve}

    @cached_property
    def _laws(self) -> dict[Key, Statistic]:
        return {}

    def mse_of(self, estimator: str, group_size: int) -> Statistic:
        """Measure the aggregate's MSE: by the law where there are no replicates."""
        measured = self._measured.get(Key(estimator, group_size))
        return measured or self.law_of(estimator, group_size)

    def law_of(self, estimator: str, group_size: int) -> Statistic:
        """Evaluate the aggregate's exact law; of a constant baseline at G = 1, G x MSE."""
        key = Key(estimator, group_size)
        if key not in self._laws:
            law = self.curves.by_law(find_estimator(estimator), group_size)
            assert law is not None  # all four have one
            self._laws[key] = law.statistic()
        return self._laws[key]

    @property
    def oracle_trace(self) -> Statistic:
        """The aggregate's T: (1/P^2) sum_x T(x)."""
        return self.law_of("oracle", 1)

    @property
    def vanilla_trace(self) -> Statistic:
        """The aggregate's A - ||g||^2, G x MSE of vanilla."""
        return self.law_of("vanilla", 1)

    @cached_property
    def zeta(self) -> Statistic:
        """The aggregate's zeta, the sum over prompts / P^2: at G = 2 half the law's gap."""
        return (self.law_of("grpo", 2) - self.law_of("oracle", 2)) * 2

    @cached_property
    def constants(self) -> dict[str, Estimate]:
        """c1 to c3 and their like, by the names of `Constants`, with intervals."""
        return self.table.estimates(self.level)

    @cached_property
    def regime(self) -> Regime:
        """On which side of vanilla the prompts are; needs three."""
        most = self.table.effective_prompts
        return find_regime(self.moments, self.rho_P, self.binary, self.level, most)

    @cached_property
    def best_group_size(self) -> Estimate:
        """G*; unknown where no reward varies."""
        return self.table.best_group_size(self.level)

    @property
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1."""
        return self.curves.binary

    @cached_property
    def norm_ratios(self) -> Floats:
        """Rho of each prompt, as in `prompts.csv`, rows of (value, low, high)."""
        return measure_norm_ratios(self.pools, self.level)

    @property
    def rho_P(self) -> Floats:
        """Rho of each prompt; NaN where it has no right or no wrong completions."""
        return self.norm_ratios[:, 0]


@dataclass(frozen=True, eq=False)
class FinishedRun(MeasuredRun):
    """A run that lies in a folder, with what else is known of it there."""

    folder: Path

    @property
    def where(self) -> str:
        """What the message of a refusal begins with."""
        return f"{self.folder}: "

    @cached_property
    def probe(self) -> Probe:
        """Its configuration."""
        return read_probe(self.folder)

    @cached_property
    def _checks(self) -> Checks:
        return ResultsFolder(self.folder).read("checks.json")

    @property
    def checks(self) -> list[Check]:
        """Its built-in checks."""
        return self._checks.checks

    @property
    def held(self) -> bool:
        """Whether all of them hold."""
        return self._checks.ok

    @cached_property
    def warnings(self) -> list[str]:
        """What its reader should know, a sentence each, as noted when it was measured."""
        return self._checks.warnings

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Where and when it was measured."""
        return ResultsFolder(self.folder).read("environment.json")


def read_run(folder: Path) -> FinishedRun:
    """Read a finished run."""
    return FinishedRun(**vars(read_result(folder)), folder=folder)
