"""Intact: the one door that the files of a result are read through.

What cannot be read, does not fit its schema, or is not what the run wrote by the checksums
in `manifest.json`, is refused in one line that names the file. A file that is merely absent
is no damage, nor is a manifest: tables are committed without the arrays they come from, and
earlier versions wrote none.
"""

import hashlib
import io
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.errors import DtypeWarning, ParserWarning
from pydantic import TypeAdapter, ValidationError

from mse_lab.arrays import LARGEST
from mse_lab.errors import InputError, in_short
from mse_lab.mse.pools import Pools
from mse_lab.probe.plain_text import parse_yaml
from mse_lab.results.checks import Checks
from mse_lab.results.diagnostics import Diagnostics, restore

MANIFEST = "manifest.json"

# What can be made again from `pools.npz`, without a model.
FROM_POOLS = ("mse.csv", "laws.csv", "prompts.csv", "by_prompt.csv", "errors.npz")

REMEDY = "restore it, or measure again with python run_mse.py run PROBE --fresh"

# Columns that stay texts, even where they look like numbers or like missing ones.
TEXTS = ("probe", "estimator", "prompt", "category")

# Columns of whole numbers, and the least of each.
COUNTS = {"group_size": 1, "replicates": 0}

SCALE_FREE = ("scale_free_mse", "scale_free_mse_low", "scale_free_mse_high")

# What a parser warns of where it meets something that no run writes; not of its own future.
_OF_CONTENT = (UserWarning, RuntimeWarning, ParserWarning, DtypeWarning)

# Numbers in environment.json, where there are any.
AMOUNTS = ("seconds", "peak_memory_bytes", "peak_device_memory_bytes")


def is_there(path: Path) -> bool:
    """Whether there is such a file.

    Raises:
        InputError: Nobody can tell: a folder on the way may not be entered.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}; allow it, or name another folder"
        ) from None
    return True


def _remedy(path: Path) -> str:
    if path.name in FROM_POOLS and is_there(path.with_name("pools.npz")):
        return "python run_mse.py run PROBE makes it again from pools.npz"
    return REMEDY


@contextmanager
def open_intact(path: Path, remedy: str = "") -> Iterator[BinaryIO]:
    """Open a file to parse it, in the body of a `with` that may fail in any way.

    Args:
        path: The file; if its folder has a manifest that knows it, it must agree.
        remedy: What to do if it is damaged; by default what a run's files need.

    Raises:
        InputError: It is damaged; the message names it and says in what way.
    """
    remedy = remedy or _remedy(path)
    digests = {} if path.name == MANIFEST else read_manifest(path.parent)
    try:
        if path.exists() and not path.is_file():
            # To open a pipe would be to wait for somebody to write into it.
            raise ValueError("it is no file")
        with warnings.catch_warnings(), path.open("rb") as file:
            for one in _OF_CONTENT:
                warnings.simplefilter("error", one)
            _see_digest(file, digests.get(path.name))
            yield file
    except FileNotFoundError:
        raise InputError(f"{path}: missing; {remedy}") from None
    except PermissionError:
        raise InputError(f"{path}: may not be read; allow it, or {remedy}") from None
    # Parsers of zip, arrays, CSV, JSON and YAML fail in whatever way a damaged file makes
    # them: by their own errors, by those of what they are built on, or out of memory.
    except Exception as error:
        raise InputError(f"{path}: damaged ({in_short(error)}); {remedy}") from None


def _see_digest(file: BinaryIO, expected: str | None) -> None:
    if expected is not None and _digest(file) != expected:
        raise ValueError(f"its checksum is not the one in {MANIFEST}")
    file.seek(0)


def _digest(file: BinaryIO) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def read_manifest(folder: Path) -> dict[str, str]:
    """Read the checksums of a result, by file name; none if there is no manifest."""
    path = folder / MANIFEST
    return dict(read(path)) if is_there(path) else {}


def make_manifest(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Make the checksums of those files that there are."""
    found = {}
    for name in names:
        if is_there(folder / name):
            with (folder / name).open("rb") as file:
                found[name] = _digest(file)
    return found


def read_arrays(path: Path, remedy: str = "") -> dict[str, NDArray[Any]]:
    """Read all arrays of an `.npz`, and thereby the checksum it keeps of each.

    Raises:
        InputError: It is missing or damaged.
    """
    with open_intact(path, remedy) as file:
        return _arrays(file)


def _arrays(file: BinaryIO) -> dict[str, NDArray[Any]]:
    if not zipfile.is_zipfile(file):
        raise ValueError("no .npz file of arrays")  # NumPy would advise to unpickle it
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def _pools(file: BinaryIO) -> Pools:
    return Pools.from_arrays(_arrays(file))


def _json(file: BinaryIO, schema: Any) -> Any:
    try:
        return TypeAdapter(schema).validate_json(file.read())
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(" ".join([*map(str, first["loc"]), first["msg"]])) from None


def _diagnostics(file: BinaryIO) -> Diagnostics | None:
    return restore(_json(file, dict[str, Any]))


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


def _table(
    file: BinaryIO, columns: Sequence[str], later: Sequence[str] = (), rows: int = 1
) -> pd.DataFrame:
    """Read a table with strings as strings.

    Args:
        file: The CSV.
        columns: Those that it must have.
        later: Those that tables of earlier versions lack; they are empty then.
        rows: How many there are at least.
    """
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


_POINT = ("probe", "estimator", "group_size")
_LAW = ("law", "law_low", "law_high")

READERS: dict[str, Callable[[BinaryIO], Any]] = {
    MANIFEST: partial(_json, schema=dict[str, str]),
    "config.yaml": _configuration,
    "prompts.sha256": _text,
    "checkpoint.json": partial(_json, schema=dict[str, str]),
    "mse.csv": partial(
        _table,
        columns=(*_POINT, "replicates", "mse", "mse_low", "mse_high", *_LAW),
        later=SCALE_FREE,
    ),
    "laws.csv": partial(_table, columns=(*_POINT, *_LAW), later=SCALE_FREE, rows=0),
    "prompts.csv": partial(_table, columns=("prompt", "category", "value")),
    "by_prompt.csv": partial(_table, columns=("prompt", *_POINT[1:])),
    "checks.json": partial(_json, schema=Checks),
    "diagnostics.json": _diagnostics,
    "environment.json": _environment,
    "errors.npz": _arrays,
    "completions.jsonl": _completions,
    "pools.npz": _pools,
}


def read(path: Path) -> Any:
    """Read a file of a result by the schema that its name stands for.

    Raises:
        InputError: It is missing or damaged.
    """
    with open_intact(path) as file:
        return READERS[path.name](file)


def see_intact(folder: Path, names: Sequence[str]) -> None:
    """See that none of those files that there are is damaged.

    Raises:
        InputError: One is; the message names it.
    """
    digests = read_manifest(folder)
    for name in names:
        if not is_there(folder / name):
            continue
        if name in digests:
            with open_intact(folder / name):
                pass
        elif name in READERS:
            read(folder / name)
