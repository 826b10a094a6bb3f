"""Records of a file, one after the other: lines of JSON, rows of tables, slime's samples.

A file may be larger than the memory. Lines that are not valid JSON are left out and
counted, up to a share of the file: a trainer may still be writing the last one.
"""

import gzip
import json
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from mse_lab.errors import InputError, in_short
from mse_lab.probe.foreign_code import load_extra
from mse_lab.probe.plain_text import reading, unique_keys
from mse_lab.probe.sources import csv_rows, parquet_rows
from mse_lab.trainer_logs.completion import Record, RecordPosition

# The largest share of a file's lines that may be damaged; one always may.
MOST_DAMAGED = 0.01

PICKLES = (".pkl", ".pickle", ".joblib")
SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet", ".csv", ".pt")

Rows = Iterator[dict[str, Any]]
Records = Iterator[Record]


def suffix_of(path: Path) -> str:
    """Give a file's suffix, with the one before `.gz`."""
    return "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix


def _parse(raw: bytes) -> dict[str, Any] | str:
    """Parse a line; where it is no JSON object, say why."""
    try:
        values = json.loads(raw, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        return f"not valid JSON ({getattr(error, 'msg', '') or in_short(error)})"
    return values if isinstance(values, dict) else "not a JSON object"


def _unzipped(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Read lines, also of a compressed file that is still being written."""
    with suppress(EOFError):
        yield from gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file


def _lines(path: Path, damaged: list[RecordPosition]) -> Records:
    number, faults = 0, list[str]()
    with path.open("rb") as file:
        for number, raw in enumerate(_unzipped(file, path), start=1):
            if not raw.strip():
                continue
            where, values = RecordPosition(str(path), "line", number), _parse(raw)
            if not isinstance(values, str):
                yield Record(values, where)
                continue
            damaged.append(where)
            if raw.endswith(b"\n"):
                faults.append(f"{where}: {values}")
    if len(faults) > max(1, MOST_DAMAGED * number) or len(faults) == number == 1:
        raise InputError(f"{faults[0]}; as {len(faults)} of {number} lines: remove them")


def _plain_value(value: Any) -> Any:
    """Convert NumPy's and pandas' values to Python's."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return None if value is pd.NA or value is pd.NaT else value


def has_samples(path: Path) -> bool:
    """Whether a .pt file begins as slime's do; checkpoints do not. No code in it runs."""
    try:
        with zipfile.ZipFile(path) as archive:
            [name] = [one for one in archive.namelist() if one.endswith("/data.pkl")]
            start = archive.open(name).read(4096)
        return b"rollout_id" in start and b"samples" in start
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


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


def _records(path: Path, damaged: list[RecordPosition]) -> Records:
    if path.suffix == ".pt":
        return _numbered(str(path), _samples(path), "sample")
    if path.suffix == ".csv":
        return _numbered(str(path), csv_rows(path, as_texts=True))
    if path.suffix == ".parquet":
        return _numbered(str(path), parquet_rows(path))
    return _lines(path, damaged)


def records_of(path: Path, damaged: list[RecordPosition]) -> Records:
    """Read a file's records, unless too many are damaged; list positions of these."""
    if path.suffix in PICKLES:
        raise InputError(
            f"{path}: a pickle, which runs code when it is read, is never loaded; save "
            "its rows as JSONL or Parquet"
        )
    if path.suffix == ".gz" and suffix_of(path) not in SUFFIXES:
        raise InputError(f"{path}: only .jsonl.gz is read as it is; unpack it")
    try:
        with reading(path):
            yield from _records(path, damaged)
    except InputError:
        raise
    except Exception as error:  # Whatever a library raises on a damaged file.
        raise InputError(f"{path}: cannot be read: {in_short(error)}") from None


def records_of_frame(frame: pd.DataFrame) -> Records:
    """Read the rows of a data frame."""
    names = [str(name) for name in frame.columns]
    rows = frame.itertuples(index=False, name=None)
    values = (dict(zip(names, map(_plain_value, row), strict=True)) for row in rows)
    return _numbered("the data frame", values)
