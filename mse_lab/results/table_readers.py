"""Readers of the tables and arrays of a result; `inventory` says which file is which."""

import io
import zipfile
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import TypeAdapter

from mse_lab.mse.corrections import CorrectionPools
from mse_lab.mse.metric import MetricPools
from mse_lab.mse.pools import Pools
from mse_lab.results import diagnostics
from mse_lab.results.files import read_text

# Columns that stay texts, even where they look like numbers or like missing ones.
TEXTS = ("probe", "estimator", "prompt", "category", "arm", "digest")

# What is kept as arrays; each checks its own.
KEPT: dict[str, Any] = {
    "pools": Pools,
    "metric": MetricPools,
    "corrections": CorrectionPools,
}


def read_npz(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Read all arrays, and thereby the checksum that is kept of each."""
    if not zipfile.is_zipfile(file):
        raise ValueError("no .npz file of arrays")  # NumPy would advise to unpickle it
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def read_kept(file: BinaryIO, kind: str) -> Pools | MetricPools | CorrectionPools:
    """Read the arrays of one of `KEPT`."""
    return KEPT[kind].from_arrays(read_npz(file))


def read_diagnostics(file: BinaryIO) -> diagnostics.Diagnostics | None:
    """Read `diagnostics.json`; None where another version wrote it."""
    return diagnostics.restore(TypeAdapter(dict[str, Any]).validate_json(file.read()))


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
