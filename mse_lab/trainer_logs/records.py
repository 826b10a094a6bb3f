"""Records of a file, one after the other: lines of JSON, rows of tables, slime's samples.

A file may be larger than the memory. A trainer may still be writing it: a last line that is
not whole is left out, and counted.
"""

import importlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mse_lab.errors import InputError, in_short
from mse_lab.probe.foreign_code import load_extra
from mse_lab.probe.plain_text import reading
from mse_lab.trainer_logs.completion import Record, RecordPosition

ROWS = 2048  # Rows in memory at once.

PICKLES = (".pkl", ".pickle", ".joblib")
SUFFIXES = (".jsonl", ".parquet", ".csv", ".pt")


class CutLine(Exception):
    """The last line of a file is not whole."""


Rows = Iterator[dict[str, Any]]
Records = Iterator[Record]


def _parse(raw: bytes, where: RecordPosition) -> dict[str, Any]:
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError) as error:
        if not raw.endswith(b"\n"):
            raise CutLine from None
        reason = getattr(error, "msg", "") or in_short(error)
        raise InputError(f"{where}: not valid JSON ({reason}); take the line out") from None
    if not isinstance(values, dict):
        raise InputError(f"{where}: not a JSON object; give one with keys and values")
    return values


def _lines(path: Path) -> Records:
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if raw.strip():
                where = RecordPosition(str(path), "line", number)
                yield Record(_parse(raw, where), where)


def _plain_value(value: Any) -> Any:
    """Convert NumPy's and pandas' values to Python's."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return None if value is pd.NA or value is pd.NaT else value


def _rows_of(frame: pd.DataFrame) -> Rows:
    names = [str(name) for name in frame.columns]
    for row in frame.itertuples(index=False, name=None):
        yield dict(zip(names, map(_plain_value, row), strict=True))


def _parquet(path: Path) -> Rows:
    parquet = importlib.import_module("pyarrow.parquet")  # Late: few logs need it.
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ROWS):
            yield from batch.to_pylist()


def _csv(path: Path) -> Rows:
    with pd.read_csv(path, chunksize=ROWS) as chunks:
        for chunk in chunks:
            yield from _rows_of(chunk)


def _samples(path: Path) -> Rows:
    """Read slime's samples by torch with `weights_only=True`: no code in a pickle runs."""
    torch = load_extra("torch", "measure", f"{path}: a .pt file")
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # Whatever a damaged archive raises.
        raise InputError(
            f"{path}: cannot be read as weights only ({in_short(error)}); pickles are "
            "never loaded: save the samples as JSONL with prompt_id and reward"
        ) from None
    samples = saved.get("samples") if isinstance(saved, dict) else None
    if not isinstance(samples, list) or not all(isinstance(one, dict) for one in samples):
        raise InputError(f"{path}: no samples, as slime's --save-debug-rollout-data has")
    yield from ({**one, "rollout_id": saved.get("rollout_id")} for one in samples)


def _numbered(path: str, rows: Iterable[dict[str, Any]], unit: str = "row") -> Records:
    for number, row in enumerate(rows):
        yield Record(row, RecordPosition(path, unit, number))


def _records(path: Path) -> Records:
    if path.suffix == ".pt":
        return _numbered(str(path), _samples(path), "sample")
    if path.suffix in (".parquet", ".csv"):
        rows = _csv if path.suffix == ".csv" else _parquet
        return _numbered(str(path), rows(path))
    return _lines(path)


def records_of(path: Path) -> Records:
    """Read the records of a file.

    Raises:
        CutLine: The last line is not whole.
        InputError: The file cannot be read.
    """
    if path.suffix in PICKLES:
        raise InputError(
            f"{path}: a pickle, which runs code when it is read, is never loaded; save "
            "its rows as JSONL or Parquet"
        )
    try:
        with reading(path):
            yield from _records(path)
    except (InputError, CutLine):
        raise
    except Exception as error:  # Whatever a library raises on a damaged file.
        raise InputError(f"{path}: cannot be read: {in_short(error)}") from None


def records_of_frame(frame: pd.DataFrame) -> Records:
    """Read the rows of a data frame."""
    return _numbered("the data frame", _rows_of(frame))
