"""The files of a training study: a table of its runs, one of pilots; prediction; verdict.

A run's rows are added when it ends, and a table is written whole or not at all: a study
that is killed goes on with the runs that are missing. Each row has a digest of the settings
of its arm.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pydantic import BaseModel, ConfigDict, TypeAdapter

from mse_lab.errors import InputError
from mse_lab.results.files import write_json, write_table
from mse_lab.results.integrity import open_intact
from mse_lab.results.inventory import read_table
from mse_lab.studies.training.predicted_group_size import Predicted
from mse_lab.studies.training.settings import PILOT, Arm, Run

REMEDY = "start over with --fresh, or choose another --out"
REMEDY_OF_DAMAGE = "restore it, or remove it"

# Columns that name a run.
KEY = ["arm", "group_size", "seed"]


class Constants(NamedTuple):
    """c1, c2 and c3 of a pilot at a step; its prompts are the whole population."""

    step: int
    c1: float
    c2: float
    c3: float


class Evaluated(NamedTuple):
    """J of a run at a step, over its training prompts and over held-out prompts."""

    step: int
    value: float
    held_out: float


# Columns of a table that are not those of every table.
COLUMNS = {"pilots.csv": Constants._fields[1:], "runs.csv": Evaluated._fields[1:]}

# Columns of `pilots.csv` until version 1.
FORMER = {"between": "c1", "oracle": "c2", "pairs": "c3"}


class Prediction(BaseModel):
    """`prediction.json`: G* at each step, and J before training, by prompts."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    digest: str
    predicted: list[Predicted]
    start: dict[str, float] = {}

    @property
    def by_step(self) -> dict[int, Predicted]:
        """What is predicted, by step."""
        return {predicted.step: predicted for predicted in self.predicted}


_ORIGINS = TypeAdapter(dict[str, dict[str, Any]])


def _read(path: Path) -> pd.DataFrame:
    """Read a table; without a file an empty one."""
    if not path.exists():
        return pd.DataFrame(columns=[*KEY, "digest"])
    with open_intact(path, REMEDY_OF_DAMAGE) as file:
        required = (*KEY, "budget", "step", "digest")
        table = read_table(file, required, rows=0).rename(columns=FORMER)
        if missing := [name for name in COLUMNS[path.name] if name not in table]:
            raise ValueError(f"no column {missing[0]}")
        for column in table.columns.drop("held_out", errors="ignore"):
            if table[column].isna().any():
                raise ValueError(f"column {column} has gaps")
        if table.duplicated([*KEY, "step"]).any():
            raise ValueError("a run's step stands twice")
    return table


class StudyFiles:
    """The folder of a study."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._prediction = folder / "prediction.json"

    def _table_of(self, arm: Arm) -> Path:
        return self.folder / ("pilots.csv" if arm.name == PILOT else "runs.csv")

    def add(self, run: Run, rows: Sequence[Evaluated | Constants], seconds: float) -> None:
        """Add what was measured along a finished run."""
        path, table = self._table_of(run.arm), pd.DataFrame(rows)
        key = (run.arm.name, run.group_size, run.seed, run.arm.training.budget)
        for position, name in enumerate([*KEY, "budget"]):
            table.insert(position, name, key[position])
        table = table.assign(seconds=round(seconds, 1), digest=run.arm.digest)
        before = _read(path)
        both = pd.concat([before, table]) if len(before) else table
        write_table(path, both.sort_values([*KEY, "step"]))

    def read(self, runs: Sequence[Run]) -> pd.DataFrame:
        """Read the rows that exist of some runs: either all are pilots, or none is.

        Raises:
            InputError: A run has other settings, or the table is damaged.
        """
        path = self._table_of(runs[0].arm)
        keys = [(run.arm.name, run.group_size, run.seed, run.arm.digest) for run in runs]
        expected = pd.DataFrame(keys, columns=[*KEY, "expected"])
        table = _read(path).merge(expected, on=KEY)
        for arm in table["arm"][table["digest"] != table["expected"]]:
            raise InputError(f"{path}: {arm} has other settings; {REMEDY}")
        return table.drop(columns="expected")

    def missing(self, runs: Sequence[Run]) -> list[Run]:
        """List the runs that are not finished; errors as `read`."""
        done = set(self.read(runs)[KEY].itertuples(index=False, name=None))
        return [run for run in runs if (run.arm.name, run.group_size, run.seed) not in done]

    def has_prediction(self) -> bool:
        """Whether anything has been predicted."""
        return self._prediction.is_file()

    def write_prediction(
        self, arm: Arm, predicted: Sequence[Predicted], start: Mapping[str, float]
    ) -> None:
        """Write what is predicted for the main grid, and J before training."""
        steps = [prediction.model_dump() for prediction in predicted]
        values = {"digest": arm.digest, "predicted": steps, "start": dict(start)}
        write_json(self._prediction, values)

    def read_prediction(self, arm: Arm) -> Prediction:
        """Read what was predicted for the main grid.

        Raises:
            InputError: Nothing was predicted, or it was for other settings.
        """
        path = self._prediction
        if not path.is_file():
            raise InputError(
                f"{path}: is missing, and it is made before anything is trained; {REMEDY}"
            )
        with open_intact(path, REMEDY_OF_DAMAGE) as file:
            prediction = Prediction.model_validate_json(file.read())
        if prediction.digest != arm.digest:
            raise InputError(f"{path}: has other settings; {REMEDY}")
        if missing := set(arm.evaluation.steps) - set(prediction.by_step):
            raise InputError(f"{path}: lacks step {min(missing)}; {REMEDY_OF_DAMAGE}")
        return prediction

    def claim(self, origins: Mapping[str, Mapping[str, Any]]) -> None:
        """Take the folder for these probes: name -> part -> its description.

        Raises:
            InputError: The study began with another probe of a name.
        """
        path, before = self.folder / "probes.json", {}
        if path.is_file():
            with open_intact(path, REMEDY_OF_DAMAGE) as file:
                before = _ORIGINS.validate_json(file.read())
        for name, origin in origins.items():
            first = before.setdefault(name, {})
            for part, value in origin.items():
                if first.setdefault(part, value) != value:
                    raise InputError(
                        f"{self.folder}: {part} of {name} is not what it was when the "
                        f"study began; {REMEDY}"
                    )
        write_json(path, before)

    def clear(self) -> None:
        """Remove everything that an earlier start left."""
        names = ("probes.json", "pilots.csv", "prediction.json", "runs.csv")
        for name in (*names, "verdict.json"):
            (self.folder / name).unlink(missing_ok=True)
