"""A finished run: read back, so that answers need no model, and repaired.

Files that are lost and follow from the pools are made again.
"""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from mse_lab.config.probe_files import parse_probe, way_from_checkpoint
from mse_lab.config.schema import Probe
from mse_lab.console import COMMAND_PREFIX
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator, identify_estimators
from mse_lab.results.analysis import Analysis
from mse_lab.results.checks import Checks
from mse_lab.results.folder import RESTORE, TABLES, ResultsFolder


class Tables(NamedTuple):
    """The tables of a run that figures draw; they may be there without its raw results."""

    name: str
    mse: pd.DataFrame
    prompts: pd.DataFrame
    held: bool = True  # Whether no built-in check failed.

    @property
    def law_only(self) -> bool:
        """Whether there are laws but no replicates."""
        return not self.mse["replicates"].any()


def read_tables(folder: Path) -> Tables:
    """Read the tables of a run."""
    results = ResultsFolder(folder)
    if not results.has_tables():
        made = f"make it with {COMMAND_PREFIX} run PROBE"
        remedy = way_from_checkpoint(folder) or made
        raise InputError(f"{folder}: no finished run; {remedy}")
    mse, prompts = map(results.read, ("mse.csv", "prompts.csv"))
    return Tables(results.name, mse, prompts, results.read_checks().ok)


def read_probe(folder: Path) -> Probe:
    """Read the configuration of a run."""
    values = ResultsFolder(folder).read("config.yaml")
    return parse_probe(values, str(folder / "config.yaml"))


def _analyse(
    results: ResultsFolder,
    name: str,
    probe: Probe,
    described: pd.DataFrame,
    noted: Checks | None = None,
) -> Analysis:
    """Analyse the pools of a run; refuse files that disagree on how much there is."""
    pools, size = results.read("pools.npz"), probe.pool
    expected = (len(described), probe.largest_group, size.replicate, size.reference)
    shapes = pools.rewards_PN.shape[1], pools.reference_rewards_PN.shape[1]
    if (pools.prompts, pools.largest_group, *shapes) != expected:
        raise InputError(
            f"{results.path}: config.yaml, prompts and pools.npz are not of one run; "
            f"{RESTORE}"
        )
    return Analysis(name, probe, pools, described, noted)


def read_run(folder: Path) -> Analysis:
    """Read a finished run, and analyse it as it was analysed when it was made."""
    tables, results = read_tables(folder), ResultsFolder(folder)
    if not results.has("pools.npz"):
        remedy = f"{COMMAND_PREFIX} run {tables.name} --out DIR measures it, into DIR"
        raise InputError(f"{folder}: tables only; {remedy}/{tables.name}")
    probe, noted = read_probe(folder), results.read("checks.json")
    run = _analyse(results, tables.name, probe, tables.prompts, noted)
    estimators = []
    for entry in probe.estimators:
        # An estimator that can no longer be imported is refused where it is evaluated.
        with suppress(InputError):
            estimators.append(find_estimator(entry))
    results.refuse_changed(identify_estimators(estimators))
    return run


def repair(name: str, probe: Probe, results: ResultsFolder) -> list[str]:
    """Make lost files of a finished run again that follow from its pools; name them."""
    if not (results.has("pools.npz") and results.has("checks.json")):
        return []
    described, lost = results.read("prompts.csv"), results.lost()
    if lost:
        results.write_tables(_analyse(results, name, probe, described), lost)
        results.seal(file for file in lost if file in TABLES)
    return lost
