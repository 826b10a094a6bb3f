"""Integrity: the one door that the files of a result are read through.

What cannot be read, does not fit its schema, or is not what the run wrote by the checksums
in `manifest.json`, is refused in one line that names the file. A file that is merely absent
is no damage, nor is a manifest: tables are committed without the arrays they come from, and
earlier versions wrote none.
"""

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray

from mse_lab.console import TYPED
from mse_lab.errors import InputError, in_short
from mse_lab.results.inventory import FILES, FROM_POOLS, MANIFEST, Reader

REMEDY = f"restore it, or measure again with {TYPED} run PROBE --fresh"

# What parsers warn of where they meet something that no run writes; not of their future.
_OF_CONTENT = (UserWarning, RuntimeWarning)


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
        return f"{TYPED} run PROBE makes it again from pools.npz"
    return REMEDY


@contextmanager
def open_intact(path: Path, remedy: str = "") -> Iterator[BinaryIO]:
    """Open a file to parse it, in the body of a `with` that may fail in any way.

    A manifest of its folder that knows it must agree. The remedy is what to do if it is
    damaged, by default what a run's files need.

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
            expected = digests.get(path.name)
            if expected is not None and _digest(file) != expected:
                raise ValueError(f"its checksum is not the one in {MANIFEST}")
            file.seek(0)
            yield file
    except FileNotFoundError:
        raise InputError(f"{path}: missing; {remedy}") from None
    except PermissionError:
        raise InputError(f"{path}: may not be read; allow it, or {remedy}") from None
    # Parsers of zip, arrays, CSV, JSON and YAML fail in whatever way a damaged file makes
    # them: by their own errors, by those of what they are built on, or out of memory.
    except Exception as error:
        raise InputError(f"{path}: damaged ({in_short(error)}); {remedy}") from None


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


def read_arrays(path: Path, remedy: str = "") -> "dict[str, NDArray[Any]]":
    """Read all arrays of an `.npz`.

    Raises:
        InputError: It is missing or damaged.
    """
    from mse_lab.results.table_readers import read_npz

    with open_intact(path, remedy) as file:
        return read_npz(file)


def _find_reader(name: str) -> Reader:
    """Find what reads a file, before it is opened: what cannot be imported is no damage."""
    if reader := FILES[name].read:
        return reader
    from mse_lab.results.table_readers import READERS

    return READERS[name]


def read(path: Path) -> Any:
    """Read a file of a result as its name in the inventory says.

    Raises:
        InputError: It is missing or damaged.
    """
    reader = _find_reader(path.name)
    with open_intact(path) as file:
        return reader(file)


def validate(folder: Path, names: Sequence[str]) -> None:
    """See that none of those files that there are is damaged.

    Raises:
        InputError: One is; the message names it.
    """
    digests = read_manifest(folder)
    for path in (folder / name for name in names if is_there(folder / name)):
        if path.name in digests:
            with open_intact(path):
                pass
        else:
            read(path)
