"""A finished run: read back, so that answers need no model, and repaired.

Files that are lost and follow from the pools are made again. What pools do not know of a
prompt is in `prompts.csv`; if that is lost, it follows from the prompts and from
`completions.jsonl`.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from mse_lab.config.probe_files import parse_probe, way_from_checkpoint
from mse_lab.config.schema import Probe
from mse_lab.config.training import Setting, find_setting
from mse_lab.console import COMMAND_PREFIX
from mse_lab.data.prompts import Prompt
from mse_lab.errors import InputError
from mse_lab.estimators import find_estimator, identify_estimators
from mse_lab.mse.pools import Pools
from mse_lab.results.analysis import Analysis, analyse_run
from mse_lab.results.checks import Checks
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.inventory import RESTORE, TABLES
from mse_lab.results.tables import describe_prompts


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
    name = str(mse["probe"].iloc[0])
    return Tables(name, mse, prompts, results.read_checks().ok)


def read_probe(folder: Path) -> Probe:
    """Read the configuration of a run."""
    values = ResultsFolder(folder).read("config.yaml")
    return parse_probe(values, str(folder / "config.yaml"))


@dataclass(frozen=True, eq=False)
class FinishedRun(Analysis):
    """A run that lies in a folder, with what else is known of it there."""

    folder: Path
    probe: Probe  # Its configuration.
    noted: Checks  # Its built-in checks and warnings, as noted when it was measured.

    @property
    def setting(self) -> Setting:
        """The training that its probe is about."""
        return find_setting(self.probe.training, self.probe)

    @property
    def held(self) -> bool:
        """Whether all built-in checks hold."""
        return self.noted.ok

    @property
    def checkpoint(self) -> str:
        """The model that its probe names."""
        return f"{self.probe.model.path} {self.probe.model.revision or ''}".strip()

    @cached_property
    def warnings(self) -> list[str]:
        """What its reader should know, a sentence each."""
        return self.noted.warnings


def _analyse(
    folder: Path, name: str, probe: Probe, pools: Pools, described: pd.DataFrame
) -> Analysis:
    """Analyse what was read of a run; refuse files that disagree on how much there is."""
    size = probe.pool
    expected = (len(described), probe.largest_group, size.replicate, size.reference)
    shapes = pools.rewards_PN.shape[1], pools.reference_rewards_PN.shape[1]
    if (pools.prompts, pools.largest_group, *shapes) != expected:
        raise InputError(
            f"{folder}: config.yaml, prompts and pools.npz are not of one run; {RESTORE}"
        )
    return analyse_run(name, probe, pools, described)


def read_run(folder: Path) -> FinishedRun:
    """Read a finished run, and analyse it as it was analysed when it was made."""
    tables, results = read_tables(folder), ResultsFolder(folder)
    if not results.has("pools.npz"):
        remedy = f"{COMMAND_PREFIX} run {tables.name} --out DIR measures it, into DIR"
        raise InputError(f"{folder}: tables only; {remedy}/{tables.name}")
    pools, probe = results.read("pools.npz"), read_probe(folder)
    run = _analyse(folder, tables.name, probe, pools, tables.prompts)
    estimators = []
    for entry in probe.estimators:
        # An estimator that can no longer be imported is refused where it is evaluated.
        with suppress(InputError):
            estimators.append(find_estimator(entry))
    results.refuse_changed(identify_estimators(estimators))
    noted = results.read("checks.json")
    return FinishedRun(**vars(run), folder=folder, probe=probe, noted=noted)


def repair(
    name: str, probe: Probe, prompts: Sequence[Prompt], results: ResultsFolder
) -> list[str]:
    """Make lost files of a finished run again that follow from its pools; name them."""
    lost = results.lost() if results.has("checks.json") else []
    if lost:
        if "prompts.csv" in lost:
            described = _describe(probe, prompts, results.read("completions.jsonl"))
        else:
            described = results.read("prompts.csv")
        pools = results.read("pools.npz")
        results.write_tables(_analyse(results.path, name, probe, pools, described), lost)
        results.seal(name for name in lost if name in TABLES)
    return lost


def _describe(
    probe: Probe, prompts: Sequence[Prompt], completions: pd.DataFrame
) -> pd.DataFrame:
    groups = completions.groupby("prompt")[["length", "truncated"]]
    size, counts = probe.pool.reference + probe.pool.replicate, groups.size()
    complete = [prompt for prompt in prompts if counts.get(prompt.id) == size]
    means = groups.mean().loc[[prompt.id for prompt in complete]]
    return describe_prompts(complete, means["length"].tolist(), means["truncated"].tolist())
