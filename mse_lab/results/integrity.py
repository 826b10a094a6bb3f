"""Integrity: all files of a result are read here, and refused if they are damaged.

A file that cannot be read, or whose checksum is not the one that the run wrote into
`manifest.json`, is refused in one line that names it. An absent file is no damage, nor is
an absent manifest: tables are committed without the arrays that they come from.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from mse_lab.errors import InputError, in_short
from mse_lab.results.files import write_json
from mse_lab.results.inventory import FILES, FROM_POOLS, MANIFEST, REPEATABLE

RESTORE = "restore it, or measure again with mse-lab run PROBE --fresh"
REPAIR = "mse-lab run PROBE makes it again from pools.npz"


def exists(path: Path) -> bool:
    """Whether there is such a file."""
    try:
        return path.exists()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}; allow it, or name another folder"
        ) from None


@contextmanager
def open_intact(path: Path, remedy: str = "") -> Iterator[BinaryIO]:
    """Open a file to be parsed in the body of a `with`, which may raise any error.

    If the manifest in its folder lists the file, the checksum must be the same. The remedy
    says what to do about a damaged file; by default it is that for a run's files.
    """
    if not remedy:
        repairable = path.name in FROM_POOLS and exists(path.with_name("pools.npz"))
        remedy = REPAIR if repairable else RESTORE
    digests = {} if path.name == MANIFEST else read_manifest(path.parent)
    try:
        if path.exists() and not path.is_file():
            # Opening a pipe would wait for another process to write into it.
            raise ValueError("it is no file")
        with path.open("rb") as file:
            if digests.get(path.name, digest := _digest(file)) != digest:
                raise ValueError(f"its checksum is not the one in {MANIFEST}")
            file.seek(0)
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


def _digest(file: BinaryIO) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def read_manifest(folder: Path) -> dict[str, str]:
    """Read the checksums of a result by file name; empty if there is no manifest."""
    path = folder / MANIFEST
    return dict(read_intact(path)) if exists(path) else {}


def write_manifest(folder: Path) -> None:
    """Write the checksums of the files that a repeated run gives again."""
    digests = {}
    for path in (folder / name for name in REPEATABLE):
        if exists(path):
            with path.open("rb") as file:
                digests[path.name] = _digest(file)
    write_json(folder / MANIFEST, digests)


def read_intact(path: Path) -> Any:
    """Read a file of a result as the inventory says; refuse it as `open_intact` does."""
    with open_intact(path) as file:
        return FILES[path.name].read(file)


def validate(folder: Path, names: Sequence[str]) -> None:
    """Refuse these files if one is damaged; any of them may be absent."""
    digests = read_manifest(folder)
    for path in (folder / name for name in names if exists(folder / name)):
        if path.name in digests:
            with open_intact(path):  # compares the checksum
                pass
        else:
            read_intact(path)
