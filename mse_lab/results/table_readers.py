"""Readers of the tables and arrays of a result; `inventory` says which file is which."""

import io
import zipfile
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mse_lab.results.files import read_text

# Columns that stay texts, even where they look like numbers or like missing ones.
TEXTS = ("probe", "estimator", "prompt", "category", "arm", "digest")


def read_npz(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Read all arrays, and thereby the checksum that is kept of each."""
    if not zipfile.is_zipfile(file):
        raise ValueError("no .npz file of arrays")  # NumPy would advise to unpickle it
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def read_table(file: BinaryIO, columns: Sequence[str], rows: int) -> pd.DataFrame:
    """Read a table of texts and numbers with these columns, and at least these rows."""
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
    table.drop(columns=[*TEXTS], errors="ignore").astype(float)
    return table


def read_completions(file: BinaryIO) -> pd.DataFrame:
    """Read `completions.jsonl`: prompt, length, and whether it was cut."""
    lines = pd.read_json(file, lines=True, dtype={"prompt": str})
    return lines[["prompt", "length", "truncated"]]
