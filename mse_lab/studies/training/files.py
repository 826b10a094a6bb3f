"""The files of a training study: a table of its runs, one of pilots; prediction; verdict.

A run's rows are added when it ends, and a table is written whole or not at all, so a study
that is killed goes on with the runs that are missing. Each row carries a digest of its
arm's settings.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from mse_lab.errors import InputError
from mse_lab.results.files import write_json, write_table, write_text
from mse_lab.results.integrity import open_intact
from mse_lab.results.table_readers import READERS
from mse_lab.studies.training.settings import PILOT, Arm, Run

REMEDY = "start over with --fresh, or choose another --out"
REMEDY_OF_DAMAGE = "restore it, or remove it"

# What names a run, and so finds its rows.
KEY = ["arm", "group_size", "seed"]


class Constants(NamedTuple):
    """c1, c2 and c3 of a pilot at a step, the prompts being all that there are."""

    step: int
    between: float
    oracle: float
    pairs: float


class Seen(NamedTuple):
    """What was seen of a model at a step: J over the prompts, and over held-out ones."""

    step: int
    value: float
    held_out: float


class _Values(BaseModel):
    """Values of a JSON file, their types as written; a later version may have more."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class _PredictedStep(_Values):
    step: int
    # Whose exponential is a number.
    log_ratio: Annotated[float, Field(ge=-300, le=300)]
    error: Annotated[float, Field(ge=0)]
    degrees: Annotated[int, Field(ge=1)]
    constants: Annotated[list[float], Field(min_length=3, max_length=3)]


class _Prediction(_Values):
    digest: str
    predicted: list[_PredictedStep]
    start: dict[str, float] = {}  # Prompts -> J before training.


_ORIGINS = TypeAdapter(dict[str, dict[str, Any]])
_PREDICTION = TypeAdapter(_Prediction)


def _read_json(path: Path, kind: TypeAdapter[Any]) -> dict[str, Any]:
    with open_intact(path, REMEDY_OF_DAMAGE) as file:
        return kind.dump_python(kind.validate_json(file.read()))


def _read(path: Path) -> pd.DataFrame:
    if not path.exists():
        return pd.DataFrame(columns=[*KEY, "digest"])
    with open_intact(path, REMEDY_OF_DAMAGE) as file:
        table: pd.DataFrame = READERS[path.name](file)
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

    def _table_of(self, arm: Arm) -> Path:
        return self.folder / ("pilots.csv" if arm.name == PILOT else "runs.csv")

    def keep(self, run: Run, rows: Sequence[Seen | Constants], seconds: float) -> None:
        """Add what was found along a finished run."""
        about = {
            "arm": run.arm.name,
            "group_size": run.group_size,
            "seed": run.seed,
            "budget": run.arm.training.budget,
        }
        table = pd.DataFrame(rows).assign(seconds=round(seconds, 1), digest=run.arm.digest)
        for place, (name, value) in enumerate(about.items()):
            table.insert(place, name, value)
        path = self._table_of(run.arm)
        before = _read(path)
        both = pd.concat([before, table]) if len(before) else table
        write_table(path, both.sort_values([*KEY, "step"]))

    def read(self, runs: Sequence[Run]) -> pd.DataFrame:
        """Read what there is of some runs: of pilots, or of none.

        Raises:
            InputError: A run is of other settings, or the table is damaged.
        """
        path = self._table_of(runs[0].arm)
        wanted = [(run.arm.name, run.group_size, run.seed, run.arm.digest) for run in runs]
        expected = pd.DataFrame(wanted, columns=[*KEY, "expected"])
        found = _read(path).merge(expected, on=KEY)
        for arm in found["arm"][found["digest"] != found["expected"]]:
            raise InputError(f"{path}: {arm} is of other settings; {REMEDY}")
        return found.drop(columns="expected")

    def missing(self, runs: Sequence[Run]) -> list[Run]:
        """Say which of some runs are not done; as `read`."""
        done = set(self.read(runs)[KEY].itertuples(index=False, name=None))
        return [run for run in runs if (run.arm.name, run.group_size, run.seed) not in done]

    def has_prediction(self) -> bool:
        """Whether anything has been predicted."""
        return (self.folder / "prediction.json").is_file()

    def write_prediction(self, arm: Arm, prediction: Mapping[str, Any]) -> None:
        """Write what is predicted for the main grid."""
        path = self.folder / "prediction.json"
        write_json(path, {"digest": arm.digest, **prediction})

    def read_prediction(self, arm: Arm | None = None) -> dict[str, Any]:
        """Read what was predicted, for the settings of the main grid where they are given.

        Raises:
            InputError: Nothing was, or for other settings.
        """
        path = self.folder / "prediction.json"
        if not path.is_file():
            raise InputError(
                f"{path}: is missing, and it is made before anything is trained; {REMEDY}"
            )
        found = _read_json(path, _PREDICTION)
        if arm is None:
            return found
        if found["digest"] != arm.digest:
            raise InputError(f"{path}: is of other settings; {REMEDY}")
        known = {one["step"] for one in found["predicted"]}
        if missing := set(arm.evaluation.steps) - known:
            raise InputError(f"{path}: lacks step {min(missing)}; {REMEDY_OF_DAMAGE}")
        return found

    def claim(self, origins: Mapping[str, Mapping[str, Any]]) -> None:
        """Take the folder for probes as they are: name -> part -> what it is, if known.

        Raises:
            InputError: What is there began with another probe of a name.
        """
        path = self.folder / "probes.json"
        known = _read_json(path, _ORIGINS) if path.is_file() else {}
        for name, origin in origins.items():
            there = known.setdefault(name, {})
            for part, value in origin.items():
                if there.setdefault(part, value) != value:
                    raise InputError(
                        f"{self.folder}: {part} of {name} is not what it was when the "
                        f"study began; {REMEDY}"
                    )
        write_json(path, known)

    def write_study(self, text: str) -> None:
        """Write the resolved settings."""
        write_text(self.folder / "study.yaml", text)

    def write_verdict(self, verdict: Mapping[str, Any]) -> None:
        """Write the verdicts."""
        write_json(self.folder / "verdict.json", verdict)

    def clear(self) -> None:
        """Remove all that an earlier start has left."""
        for name in ("probes.json", "pilots.csv", "prediction.json", "runs.csv"):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "verdict.json").unlink(missing_ok=True)
