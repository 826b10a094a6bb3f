"""Files: each is written whole or not at all, so that a kill leaves no half of one."""

import io
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mse_lab.arrays import Arrays
from mse_lab.console import writing
from mse_lab.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


# Who has made a figure: what `report.drawing` writes into its metadata, which all kinds of
# files that it draws have at their beginning or end.
MAKER = "mse_lab, how far is the policy gradient"
_OWN = (MAKER.encode(), b"<title>How far is the policy gradient")
_READ_BYTES = 4096


def is_own(path: Path) -> bool:
    """Whether a figure or page is this package's, which replaces no other.

    A link is somebody's.
    """
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        ends = file.read(_READ_BYTES)
        file.seek(max(0, path.stat().st_size - _READ_BYTES))
        ends += file.read()
    return any(mark in ends for mark in _OWN)


def write_output(path: Path, content: bytes) -> None:
    """Write a figure or page; somebody's own file of that name is left alone."""
    if (path.exists() or path.is_symlink()) and not is_own(path):
        raise InputError(
            f"{path}: is somebody's own, and is not written over; move it, or name another "
            "file by --out"
        )
    write_bytes(path, content)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; a link in its place is replaced, not followed."""
    temporary = path.with_name(f".{path.name}.part")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # A part that a kill has left, or somebody's link to another file.
        temporary.unlink(missing_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 with LF, whole or not at all."""
    write_bytes(path, text.encode())


def as_data(value: Any) -> Any:
    """Turn named tuples into mappings, and numbers that JSON does not have into words."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return as_data(value._asdict())
    if isinstance(value, Mapping):
        return {key: as_data(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [as_data(entry) for entry in value]
    if isinstance(value, float):
        # So that it is the same where only the rounding of a processor differs.
        return float(f"{value:.5g}") if math.isfinite(value) else str(value)
    return value


def write_json(path: Path, value: object) -> None:
    """Write indented JSON."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_table(path: Path, table: "pd.DataFrame") -> None:
    """Write a table as CSV, its numbers with ten digits."""
    write_text(path, table.to_csv(index=False, float_format="%.10g", lineterminator="\n"))


def write_arrays(path: Path, arrays: Arrays, *, compressed: bool = True) -> None:
    """Write named arrays as `.npz`."""
    buffer = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(buffer, allow_pickle=False, **arrays)
    write_bytes(path, buffer.getvalue())
