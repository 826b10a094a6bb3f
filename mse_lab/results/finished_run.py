"""A finished run, read back: what every answer is computed from, without the model."""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from mse_lab.errors import InputError
from mse_lab.mse.pools import Pools
from mse_lab.probe.probe_files import parse_probe
from mse_lab.probe.schema import Probe
from mse_lab.results.analysis import Analysis, analyse_run
from mse_lab.results.intact import REMEDY
from mse_lab.results.records import Record


class Finished(NamedTuple):
    """One finished run.

    Attributes:
        name: The probe's name, as in the tables.
        probe: Its configuration.
        pools: Its pools.
        prompts: `prompts.csv`.
    """

    name: str
    probe: Probe
    pools: Pools
    prompts: pd.DataFrame

    def see_of_one_run(self, folder: Path) -> None:
        """See that the parts agree on how much was measured.

        Raises:
            InputError: They do not.
        """
        pools, size = self.pools, self.probe.pool
        if (
            pools.prompts != len(self.prompts)
            or pools.largest_group != self.probe.largest_group
            or pools.rewards_PN.shape[1] != size.replicate
            or pools.reference_rewards_PN.shape[1] != size.reference
        ):
            raise InputError(
                f"{folder}: config.yaml, prompts and pools.npz are not of one run; {REMEDY}"
            )


class Tables(NamedTuple):
    """The tables of a run, which outlive its raw results.

    Attributes:
        name: The probe's name.
        mse: `mse.csv`.
        prompts: `prompts.csv`; ids and categories are texts, even where they look like
            numbers.
        held: Whether all its built-in checks hold.
    """

    name: str
    mse: pd.DataFrame
    prompts: pd.DataFrame
    held: bool

    @property
    def law_only(self) -> bool:
        """Whether the run has norms only: laws, and no replicates."""
        return not self.mse["replicates"].any()


def read_tables(folder: Path) -> Tables:
    """Read the tables of a run, committed or just made.

    Raises:
        InputError: The folder holds none, or a damaged one.
    """
    record = Record(folder)
    if not record.has_tables():
        raise InputError(
            f"{folder}: no finished run; make it with python run_mse.py run PROBE"
        )
    mse = record.read_table("mse.csv")
    return Tables(
        name=str(mse["probe"].iloc[0]),
        mse=mse,
        prompts=record.read_table("prompts.csv"),
        held=record.read_checks().ok,
    )


def read_laws(folder: Path) -> pd.DataFrame:
    """Read `laws.csv` of a run.

    Raises:
        InputError: It is missing or damaged.
    """
    return Record(folder).read_table("laws.csv")


def read_run_name(folder: Path) -> str:
    """Name the run of a folder, as its tables do.

    Raises:
        InputError: The folder holds no tables.
    """
    return read_tables(folder).name


def read_finished(folder: Path) -> Finished:
    """Read a finished run.

    Raises:
        InputError: The folder holds tables only, or nothing, or what is damaged or of
            several runs.
    """
    tables, record = read_tables(folder), Record(folder)
    name = tables.name
    if not record.has("pools.npz"):
        raise InputError(
            f"{folder}: tables only; measure it again with python run_mse.py run {name}"
        )
    finished = Finished(name, read_probe(folder), record.read_pools(), tables.prompts)
    finished.see_of_one_run(folder)
    return finished


def read_probe(folder: Path) -> Probe:
    """Read the configuration of a run.

    Raises:
        InputError: It is not one.
    """
    record = Record(folder)
    return parse_probe(record.configuration(), str(record.path("config.yaml")))


def read_result(folder: Path) -> Analysis:
    """Read a finished run and analyse it, as it was analysed when it was made.

    Raises:
        InputError: The folder holds tables only, or nothing, or a damaged file.
    """
    name, probe, pools, prompts = read_finished(folder)
    return analyse_run(name, probe, pools, prompts)
