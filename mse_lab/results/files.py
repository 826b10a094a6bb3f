"""Files: each is written whole or not at all, and a damaged one is refused in one line.

A kill leaves no half of a file, and nothing that somebody else wrote is written over.
"""

import io
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any, BinaryIO

import numpy as np

from mse_lab.arrays import Arrays
from mse_lab.console import writing
from mse_lab.errors import InputError, in_short

# Who has made a figure: what `report.drawing` writes into its metadata, which all kinds of
# files that it draws have at their beginning or end.
MAKER = "mse_lab, how far is the policy gradient"
_OUR_MARKS = (MAKER.encode(), b"<title>How far is the policy gradient")
_READ_BYTES = 4096

# How `advice.json` and `claims.csv` begin.
_BEGINNINGS = re.compile(rb'\{\s*"name": "[^"]*",\s*"prompts": \d|statement,kind,run,')


def is_ours(path: Path) -> bool:
    """Whether a file that others may have, too, was made here; a link is somebody's."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        begins = file.read(_READ_BYTES)
        file.seek(max(0, path.stat().st_size - _READ_BYTES))
        ends = begins + file.read()
    return bool(_BEGINNINGS.match(begins)) or any(mark in ends for mark in _OUR_MARKS)


def vanished(folder: Path) -> InputError:
    """Say that a folder is gone that a measurement has begun in."""
    return InputError(f"{folder}: has vanished under way; the same command begins anew")


def remove(path: Path) -> None:
    """Remove a file, if there is one."""
    with writing(path):
        path.unlink(missing_ok=True)


@contextmanager
def open_intact(path: Path, remedy: str) -> Iterator[BinaryIO]:
    """Open a file to be parsed in the body of a `with`, which may raise any error.

    It is refused then in one line: as damaged, with the remedy.
    """
    try:
        if path.exists() and not path.is_file():
            # Opening a pipe would wait for another process to write into it.
            raise ValueError("it is no file")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise InputError(f"{path}: missing; {remedy}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; {remedy}") from None
    except ImportError:  # A package is missing; the file may be sound.
        raise
    # Parsers raise all kinds of errors on a damaged file, MemoryError among them.
    except Exception as error:
        raise InputError(f"{path}: damaged ({in_short(error)}); {remedy}") from None


def write_output(path: Path, content: bytes) -> None:
    """Write what a command makes; somebody's own file of that name is left alone."""
    if (path.exists() or path.is_symlink()) and not is_ours(path):
        raise InputError(f"{path}: is somebody's own, and is not written over; move it")
    write_bytes(path, content)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; a link in its place is replaced, not followed.

    Of several that write it at once each has a part of its own, and the last one stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.part")
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


def encode(name: str, content: Any) -> bytes:
    """Encode a file's content by its name: a table, JSON, arrays, or else a text.

    Numbers of a table have ten digits; texts are UTF-8, with LF.

    >>> encode("config.yaml", "seed: 1")
    b'seed: 1'
    """
    suffix = Path(name).suffix
    if suffix == ".npz":
        return npz_bytes(content)
    if suffix == ".json":
        content = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    if suffix == ".csv":
        content = content.to_csv(index=False, float_format="%.10g", lineterminator="\n")
    return bytes(content.encode())


def npz_bytes(arrays: Arrays, *, compressed: bool = True) -> bytes:
    """Give the content of an `.npz` of named arrays."""
    buffer = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def write_file(path: Path, content: Any) -> None:
    """Write a table, JSON, arrays or a text, by the path's suffix."""
    write_bytes(path, encode(path.name, content))
