"""Shards: a folder of measurements, a file each, from which an interrupted run goes on.

A shard holds a dataclass, such as `PromptMeasurement`. It bears a seal: a digest of its
content and of its origin, which is what was measured. A shard that is damaged, changed, or
of another run is not read. Each is written whole or not at all; a kill loses what is being
measured.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from mse_lab.data.identity import digest_arrays
from mse_lab.errors import InputError
from mse_lab.results.files import npz_bytes, open_intact, vanished, write_bytes
from mse_lab.results.folder import read_npz

T = TypeVar("T")

# The index of a prompt; for a block of its completions also the numbers start and stop.
Item = tuple[int, ...]

# To be raised with every change of what a shard holds or means: shards of other versions
# are measured again.
SHARD_VERSION = 18

START_AGAIN = "start again, and it is measured again"


def as_arrays(measured: Any) -> dict[str, NDArray[Any]]:
    """Give the fields of a dataclass, and of the dataclasses in it; all names differ."""
    arrays: dict[str, NDArray[Any]] = {}
    for name in (field.name for field in fields(measured)):
        value = getattr(measured, name)
        if is_dataclass(value):
            arrays |= as_arrays(value)
        elif isinstance(value, str):
            # As bytes: an array of texts takes four for each character.
            arrays[name] = np.frombuffer(value.encode(), np.uint8)
        else:
            arrays[name] = np.asarray(value)
    return arrays


def _from_arrays(kind: type[T], arrays: Mapping[str, NDArray[Any]]) -> T:
    values: dict[str, Any] = {}
    for name, type_ in get_type_hints(kind).items():
        if isinstance(type_, type) and is_dataclass(type_):
            values[name] = _from_arrays(type_, arrays)
        elif type_ is str:
            values[name] = arrays[name].tobytes().decode()
        else:
            values[name] = arrays[name] if arrays[name].ndim else arrays[name].item()
    return kind(**values)


def save_shard(measured: object, path: Path, origin: str) -> None:
    """Write a dataclass of a prompt, whole or not at all, with its origin in the seal."""
    arrays = as_arrays(measured)
    marks = {
        "version": np.array(SHARD_VERSION),
        "seal": np.array(digest_arrays(arrays, SHARD_VERSION, origin)),
    }
    # Vectors of random numbers, read once: compressing them gains nothing.
    write_bytes(path, npz_bytes(arrays | marks, compressed=False))


def load_shard(kind: type[T], path: Path, origin: str) -> T:
    """Read a dataclass of this kind; refuse one that is damaged or of another origin."""
    with open_intact(path, START_AGAIN) as file:
        arrays = read_npz(file)
        if not np.array_equal(arrays.pop("version", 0), SHARD_VERSION):
            raise ValueError("of another version")
        if arrays.pop("seal").item() != digest_arrays(arrays, SHARD_VERSION, origin):
            raise ValueError("changed since, or of another run")
        return _from_arrays(kind, arrays)


class Shards(Generic[T]):
    """The measurements of one kind in a folder, by item; each file is read once."""

    def __init__(self, kind: type[T], folder: Path, origin: Callable[[Item], str]) -> None:
        """Look for them in `folder`; `origin` hashes all that an item's depends on."""
        self._kind: type[T] = kind
        self._folder, self._origin = folder, origin
        self._read: dict[Item, T] = {}

    def path(self, item: Item) -> Path:
        """Give the path of an item's file.

        >>> Shards(int, Path("shards"), str).path((3, 0, 8)).name
        '000003-0-8.npz'
        """
        index, *block = item
        return self._folder / f"{'-'.join([f'{index:06d}', *map(str, block)])}.npz"

    def items(self) -> list[Item]:
        """List the items that have a file, sound or not."""
        names = [path.stem for path in sorted(self._folder.glob("*.npz"))]
        named = [name for name in names if re.fullmatch(r"\d+(-\d+)*", name)]
        return [tuple(map(int, name.split("-"))) for name in named]

    def __contains__(self, item: Item) -> bool:
        """Whether an item's file is there, intact, and of this very measurement."""
        with suppress(InputError):
            self[item]
        return item in self._read

    def __getitem__(self, item: Item) -> T:
        """Read an item's file; refuse one that is not there or not intact."""
        if item not in self._read:
            measured = load_shard(self._kind, self.path(item), self._origin(item))
            self._read[item] = measured
        return self._read[item]

    def __setitem__(self, item: Item, measured: T) -> None:
        """Write an item's file, into the folder that the run began in."""
        if not self._folder.parent.is_dir():
            raise vanished(self._folder.parent)
        save_shard(measured, self.path(item), self._origin(item))
