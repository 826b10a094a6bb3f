"""A finished run, read back: what every answer is computed from, without the model."""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from mse_lab.analysis import Result, analyse_run
from mse_lab.checks import hold
from mse_lab.config import InputError, Probe, parse_probe
from mse_lab.pools import Pools
from mse_lab.records import Record


class Finished(NamedTuple):
    """One finished run.

    Attributes:
        name: The probe's name, as in the tables.
        probe: Its configuration.
        pools: Its pools.
    """

    name: str
    probe: Probe
    pools: Pools


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
        InputError: The folder holds none.
    """
    record = Record(folder)
    if not record.has_tables():
        raise InputError(
            f"{folder}: no finished run; make it with python run_mse.py run PROBE"
        )
    mse = pd.read_csv(record.path("mse.csv"))
    texts = {"prompt": str, "category": str}
    return Tables(
        name=str(mse["probe"].iloc[0]),
        mse=mse,
        prompts=pd.read_csv(record.path("prompts.csv"), converters=texts),
        held=not record.has_checks() or hold(record.read_checks()),
    )


def read_laws(folder: Path) -> pd.DataFrame:
    """Read `laws.csv` of a run.

    Raises:
        InputError: It is missing.
    """
    path = Record(folder).path("laws.csv")
    if not path.exists():
        raise InputError(f"{path}: missing; make it with python run_mse.py run PROBE")
    return pd.read_csv(path)


def read_run_name(folder: Path) -> str:
    """Name the run of a folder, as its tables do.

    Raises:
        InputError: The folder holds no tables.
    """
    return read_tables(folder).name


def read_finished(folder: Path) -> Finished:
    """Read a finished run.

    Raises:
        InputError: The folder holds tables only, or nothing.
    """
    name, record = read_run_name(folder), Record(folder)
    if not record.path("pools.npz").exists():
        raise InputError(
            f"{folder}: tables only; measure it again with python run_mse.py run {name}"
        )
    return Finished(name, read_probe(folder), record.read_pools())


def read_probe(folder: Path) -> Probe:
    """Read the configuration of a run.

    Raises:
        InputError: It is not one.
    """
    record = Record(folder)
    return parse_probe(record.configuration(), str(record.path("config.yaml")))


def read_result(folder: Path) -> Result:
    """Read a finished run and analyse it, as it was analysed when it was made.

    Raises:
        InputError: The folder holds tables only, or nothing.
    """
    finished = read_finished(folder)
    described = read_tables(folder).prompts
    return analyse_run(finished.name, finished.probe, finished.pools, described)
