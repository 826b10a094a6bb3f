"""Source: a finished run, as the page reads it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from mse_lab.errors import InputError
from mse_lab.estimators import find_estimators
from mse_lab.mse.curves import Curves, Point, measure_curves
from mse_lab.mse.pools import Pools
from mse_lab.mse.replicates import Key, measure_errors
from mse_lab.probe.schema import Probe
from mse_lab.results.analysis import Analysis
from mse_lab.results.checks import Check, hold
from mse_lab.results.finished_run import read_probe, read_result
from mse_lab.results.records import Record

# What the ratios compare.
COMPARED = ("oracle", "grpo", "vanilla", "best-constant")


@dataclass(frozen=True)
class Source:
    """One run.

    Attributes:
        key: Names the run in the ids of the page.
        name: The probe's name.
        folder: Where the run lies.
        probe: Its configuration.
        result: Its numbers.
        prompts: `prompts.csv`.
        checks: Its built-in checks.
        warnings: What its reader should know, a sentence each.
        environment: `environment.json`.
    """

    key: str
    name: str
    folder: Path
    probe: Probe
    result: Analysis
    prompts: pd.DataFrame
    checks: list[Check]
    warnings: list[str]
    environment: dict[str, Any]

    @property
    def level(self) -> float:
        """Coverage of the intervals."""
        return self.probe.interval.level

    @cached_property
    def law_only(self) -> bool:
        """Whether the run has norms only: laws, and no replicates."""
        return not self.pools.has_cross_products

    @property
    def group_sizes(self) -> list[int]:
        """Group sizes of two or more, which all compared estimators are defined for."""
        return [size for size in self.probe.group_sizes if size > 1]

    @property
    def held(self) -> bool:
        """Whether all built-in checks hold."""
        return hold(self.checks)

    @property
    def pools(self) -> Pools:
        """Its pools."""
        return self.result.pools

    @property
    def curves(self) -> Curves:
        """What its curves share, as in `mse.csv`."""
        return self.result.curves

    @cached_property
    def compared(self) -> dict[Key, Point]:
        """The curves that the ratios compare: measured, and by law."""
        estimators = find_estimators(COMPARED, self.group_sizes)
        errors = measure_errors(self.pools, estimators, self.group_sizes)
        return measure_curves(self.curves, estimators, errors)


# Beside the pools, what the page shows of a run.
_NEEDED = ("mse.csv", "prompts.csv", "checks.json", "environment.json")


def read_source(folder: Path, key: str) -> Source:
    """Read a finished run.

    Raises:
        InputError: The folder holds tables only, or nothing, or a file of it is gone.
    """
    result, record = read_result(folder), Record(folder)
    for needed in _NEEDED:
        if not record.has(needed):
            raise InputError(
                f"{folder}: {needed} is missing; measure it again with "
                f"python run_mse.py run {result.name} --fresh"
            )
    judged = record.read_checks()
    return Source(
        key=key,
        name=result.name,
        folder=folder,
        probe=read_probe(folder),
        result=result,
        prompts=result.described,
        checks=judged.checks,
        warnings=judged.warnings,
        environment=record.read_environment(),
    )
