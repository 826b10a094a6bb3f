"""Records of a file, one after the other: lines of JSON, rows of Parquet and CSV.

A file may be larger than the memory. A trainer may still be writing it: a last line that is
not whole is left out, and counted.
"""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mse_lab.errors import InputError, in_short
from mse_lab.probe.foreign_code import guard, load_extra
from mse_lab.probe.plain_text import reading
from mse_lab.trainer_logs.completion import Place
from mse_lab.trainer_logs.slime import read_samples

# Rows in memory at once.
ROWS = 2048

PICKLES = (".pkl", ".pickle", ".joblib")
SUFFIXES = (".jsonl", ".parquet", ".csv", ".pt")


class CutLine(Exception):
    """The last line of a file is not whole."""


Records = Iterator[tuple[Place, dict[str, Any]]]


def _parse(raw: bytes, where: Place) -> dict[str, Any]:
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
                where = Place(str(path), "line", number)
                yield where, _parse(raw, where)


def _rows(path: Path, chunks: Iterator[list[dict[str, Any]]]) -> Records:
    number = 0
    for chunk in chunks:
        for row in chunk:
            yield Place(str(path), "row", number), row
            number += 1


def _guarded(path: Path, chunks: Iterator[Any]) -> Iterator[Any]:
    """Take chunks of a library one by one; its errors become one line."""
    while True:
        with guard(f"{path}: cannot be read"):
            chunk = next(chunks, None)
        if chunk is None:
            return
        yield chunk


def _parquet(path: Path) -> Iterator[list[dict[str, Any]]]:
    load_extra("pyarrow", "data", f"{path}: a Parquet file")
    parquet = importlib.import_module("pyarrow.parquet")
    with path.open("rb") as stream:
        with guard(f"{path}: cannot be read"):
            file = parquet.ParquetFile(stream)
        for batch in _guarded(path, file.iter_batches(batch_size=ROWS)):
            yield batch.to_pylist()


def _plain_value(value: Any) -> Any:
    """Make Python's values of NumPy's and pandas'."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return None if value is pd.NA or value is pd.NaT else value


def _chunks_of(frame: pd.DataFrame) -> Iterator[list[dict[str, Any]]]:
    names = [str(name) for name in frame.columns]
    for start in range(0, len(frame), ROWS):
        rows = frame.iloc[start : start + ROWS].itertuples(index=False, name=None)
        yield [dict(zip(names, map(_plain_value, row), strict=True)) for row in rows]


def _csv(path: Path) -> Iterator[list[dict[str, Any]]]:
    with path.open("rb") as stream:
        with guard(f"{path}: cannot be read"):
            chunks = pd.read_csv(stream, chunksize=ROWS)
        for chunk in _guarded(path, iter(chunks)):
            yield from _chunks_of(chunk)


def records_of(path: Path) -> Records:
    """Read the records of a file.

    Raises:
        CutLine: The last line is not whole.
        InputError: It cannot be read.
    """
    if path.suffix in PICKLES:
        raise InputError(
            f"{path}: a pickle, which runs code when it is read, is never loaded; save "
            "its rows as JSONL or Parquet"
        )
    with reading(path):
        if path.suffix == ".pt":
            yield from read_samples(path)
        elif path.suffix == ".parquet":
            yield from _rows(path, _parquet(path))
        elif path.suffix == ".csv":
            yield from _rows(path, _csv(path))
        else:
            yield from _lines(path)


def records_of_frame(frame: pd.DataFrame) -> Records:
    """Read the rows of a data frame."""
    yield from _rows(Path("the data frame"), _chunks_of(frame))
