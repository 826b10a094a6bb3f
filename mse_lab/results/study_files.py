"""The files of a training study: a file a run, merged; the prediction; the verdict.

A run's rows are written when it ends, whole or not at all, so a study that is killed goes
on with the runs that are missing. Each row carries a digest of its arm's settings.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from mse_lab.errors import InputError, in_short
from mse_lab.probe.plain_text import read_text
from mse_lab.probe.study import Arm, Run
from mse_lab.results.files import write_json, write_table, write_text

REMEDY = "start over with --fresh, or choose another --out"


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


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(read_text(path))
    except ValueError as error:
        raise InputError(f"{path}: is damaged ({in_short(error)}); remove it") from None
    return found


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({in_short(error)}); remove it") from None


class StudyFiles:
    """The folder of a study."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _run(self, run: Run) -> Path:
        return self.folder / "runs" / f"{run.name}.csv"

    def keep(self, run: Run, rows: Sequence[Seen | Constants], seconds: float) -> None:
        """Keep what was found along a finished run."""
        about = {
            "arm": run.arm.name,
            "budget": run.arm.training.budget,
            "group_size": run.group_size,
            "seed": run.seed,
        }
        table = pd.DataFrame(rows).assign(seconds=round(seconds, 1), digest=run.arm.digest)
        for place, (name, value) in enumerate(about.items()):
            table.insert(place, name, value)
        write_table(self._run(run), table)

    def is_done(self, run: Run) -> bool:
        """Whether a run is there.

        Raises:
            InputError: It is, of other settings, or damaged.
        """
        path = self._run(run)
        if not path.is_file():
            return False
        table, expected = _read(path), {run.arm.digest}
        if set(table.get("digest", ())) != expected:
            raise InputError(f"{path}: is of other settings; {REMEDY}")
        return True

    def read(self, runs: Sequence[Run]) -> pd.DataFrame:
        """Read what there is of some runs, in their order."""
        done = [_read(self._run(run)) for run in runs if self.is_done(run)]
        return pd.concat(done, ignore_index=True) if done else pd.DataFrame()

    def merge(self, runs: Sequence[Run]) -> pd.DataFrame:
        """Write the rows of the runs that are done into one table; give it."""
        table = self.read(runs)
        write_table(self.folder / "runs.csv", table)
        return table

    def read_table(self) -> pd.DataFrame:
        """Read that table.

        Raises:
            InputError: There is none.
        """
        return _read(self.folder / "runs.csv")

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
        found: dict[str, Any] = _read_json(path)
        if arm is not None and found["digest"] != arm.digest:
            raise InputError(f"{path}: is of other settings; {REMEDY}")
        return found

    def write_study(self, text: str) -> None:
        """Write the resolved settings."""
        write_text(self.folder / "study.yaml", text)

    def write_verdict(self, verdict: Mapping[str, Any]) -> None:
        """Write the verdicts."""
        write_json(self.folder / "verdict.json", verdict)

    def clear(self) -> None:
        """Remove all that an earlier start has left."""
        for path in [*self.folder.glob("runs/*.csv"), *self.folder.glob("*.json")]:
            path.unlink()
        (self.folder / "runs.csv").unlink(missing_ok=True)
