"""Inventory: every file of a result, how it is read, and what it can be made from.

A reader takes an open file and raises, in whatever way, where it holds what no run writes.
All that is done with whole results follows from this table: reading, mending, clearing,
the manifest, and how a result stands.
"""

import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from mse_lab.arrays import LARGEST
from mse_lab.mse.pools import Pools
from mse_lab.probe.plain_text import parse_yaml
from mse_lab.results.checks import Checks
from mse_lab.results.diagnostics import restore

Reader = Callable[[BinaryIO], Any]

MANIFEST = "manifest.json"

# Columns that stay texts, even where they look like numbers or like missing ones.
TEXTS = ("probe", "estimator", "prompt", "category")

# Columns of whole numbers, and the least of each.
COUNTS = {"group_size": 1, "replicates": 0}

SCALE_FREE = ("scale_free_mse", "scale_free_mse_low", "scale_free_mse_high")

# Numbers in environment.json, where there are any.
AMOUNTS = ("seconds", "peak_memory_bytes", "peak_device_memory_bytes")


def read_npz(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Read all arrays, and thereby the checksum that is kept of each."""
    if not zipfile.is_zipfile(file):
        raise ValueError("no .npz file of arrays")  # NumPy would advise to unpickle it
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def _json(file: BinaryIO, schema: Any) -> Any:
    try:
        return TypeAdapter(schema).validate_json(file.read())
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(" ".join([*map(str, first["loc"]), first["msg"]])) from None


def _environment(file: BinaryIO) -> dict[str, Any]:
    values: dict[str, Any] = _json(file, dict[str, Any])
    for name in AMOUNTS:
        value = values.get(name, 0)
        if value is not None and not abs(float(value)) <= LARGEST:
            raise ValueError(f"{name} is no such number")
    return values


def _text(file: BinaryIO) -> str:
    text = file.read().decode()
    if not text.endswith("\n"):
        raise ValueError("its last line is cut")
    return text


def _configuration(file: BinaryIO) -> dict[str, Any]:
    values = parse_yaml(_text(file), "its text")
    if not isinstance(values, dict):
        raise TypeError("it holds no keys")
    return values


def _read_table(
    file: BinaryIO, columns: Sequence[str], later: Sequence[str], rows: int
) -> pd.DataFrame:
    table = pd.read_csv(
        io.StringIO(_text(file)),
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
        _see_numbers(table[column])
    return table.reindex(columns=table.columns.union(later, sort=False))


def _table(columns: Sequence[str], later: Sequence[str] = (), rows: int = 1) -> Reader:
    """Read a table of at least so many rows; columns of `later` versions may be empty."""
    return partial(_read_table, columns=columns, later=later, rows=rows)


def _see_numbers(column: "pd.Series[float]") -> None:
    """See that a column holds numbers that can be drawn and computed with."""
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


def _completions(file: BinaryIO) -> pd.DataFrame:
    line = TypeAdapter(_Completion)
    return pd.DataFrame(map(line.validate_json, file)).astype({"truncated": float})


@dataclass(frozen=True)
class File:
    """A file of a result.

    Attributes:
        made_from: `pools`, without a model; a `model`; or a finished `result`, by another
            command, which no run reads back.
        read: How it is read.
        needed: Whether a finished run consists of it.
    """

    made_from: Literal["pools", "model", "result"]
    read: Reader | None = None
    needed: bool = False


_POINT = ("probe", "estimator", "group_size")
_LAW = ("law", "law_low", "law_high")
_MSE = (*_POINT, "replicates", "mse", "mse_low", "mse_high", *_LAW)
_NAMES = partial(_json, schema=dict[str, str])

FILES = {
    "mse.csv": File("pools", _table(_MSE, later=SCALE_FREE), needed=True),
    "laws.csv": File("pools", _table((*_POINT, *_LAW), later=SCALE_FREE, rows=0)),
    "prompts.csv": File("pools", _table(("prompt", "category", "value")), needed=True),
    "by_prompt.csv": File("pools", _table(("prompt", *_POINT[1:]))),
    "errors.npz": File("pools", read_npz, needed=True),
    "pools.npz": File("model", lambda file: Pools.from_arrays(read_npz(file)), needed=True),
    "config.yaml": File("model", _configuration),
    "prompts.sha256": File("model", _text),
    "checkpoint.json": File("model", _NAMES),
    "environment.json": File("model", _environment),
    "diagnostics.json": File("model", lambda file: restore(_json(file, dict[str, Any]))),
    "completions.jsonl": File("model", _completions),
    # After the checks only the manifest is written.
    "checks.json": File("model", partial(_json, schema=Checks), needed=True),
    **dict.fromkeys(("claims.csv", "claims.md", "advice.csv", "advice.md"), File("result")),
    **dict.fromkeys(("advice.png", "advice.pdf", "report.html"), File("result")),
}

FROM_POOLS = tuple(name for name, file in FILES.items() if file.made_from == "pools")
FROM_MODEL = tuple(name for name, file in FILES.items() if file.made_from == "model")
NEEDED = tuple(name for name, file in FILES.items() if file.needed)

READERS = {name: file.read for name, file in FILES.items() if file.read} | {
    MANIFEST: _NAMES
}
