"""Readers of the tables and arrays of a result; `inventory` says which file is which."""

import io
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.errors import DtypeWarning, ParserWarning
from pydantic import TypeAdapter

from mse_lab.arrays import LARGEST
from mse_lab.results.files import read_text

# Columns that stay texts, even where they look like numbers or like missing ones.
TEXTS = ("probe", "estimator", "prompt", "category", "arm", "digest")

# Columns of whole numbers, and the least of each.
COUNTS = {"group_size": 1, "replicates": 0, "seed": 0, "budget": 1, "step": 0}


def read_npz(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Read all arrays, and thereby the checksum that is kept of each."""
    if not zipfile.is_zipfile(file):
        raise ValueError("no .npz file of arrays")  # NumPy would advise to unpickle it
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def read_table(file: BinaryIO, columns: Sequence[str], rows: int) -> pd.DataFrame:
    """Read a table that has these columns, and at least these rows."""
    # `open_intact` restores the filters.
    for category in (DtypeWarning, ParserWarning):
        warnings.simplefilter("error", category)
    table = pd.read_csv(
        io.StringIO(read_text(file)),
        dtype=dict.fromkeys(TEXTS, str),
        # A number may be missing; a text may be empty.
        keep_default_na=False,
        na_values=[""],
        index_col=False,
    ).fillna(dict.fromkeys(TEXTS, ""))
    missing = [column for column in columns if column not in table]
    if missing or len(table) < rows:
        raise ValueError(f"no column {missing[0]}" if missing else "no rows")
    for column in table.columns.difference(TEXTS):
        _refuse_other_than_numbers(table[column])
    return table


def _refuse_other_than_numbers(column: "pd.Series[float]") -> None:
    """Refuse a column of anything but numbers that can be drawn and computed with."""
    if column.empty:
        return
    least = COUNTS.get(str(column.name))
    kinds = "if" if least is None else "i"
    if column.dtype.kind not in kinds or (least is not None and column.min() < least):
        raise ValueError(f"column {column.name} holds what is no such number")
    # Squared errors are products of three numbers of the pools.
    if column.abs().max() > LARGEST**3:
        raise ValueError(f"column {column.name} holds {column.abs().max():.3g}")


@dataclass(frozen=True)
class _Completion:
    """What is read of a line of `completions.jsonl`; earlier versions lack `truncated`."""

    prompt: str
    length: int
    truncated: bool | None = None


def read_completions(file: BinaryIO) -> pd.DataFrame:
    """Read `completions.jsonl`: prompt, length, and whether it was cut."""
    line = TypeAdapter(_Completion)
    return pd.DataFrame(map(line.validate_json, file)).astype({"truncated": float})
