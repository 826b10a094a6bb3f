"""Shards: the files of single prompts, from which an interrupted run goes on.

A shard holds a dataclass, such as `PromptMeasurement`. It bears a seal: a digest of its
content and of its origin, which is what was measured. A shard that is damaged, changed, or
of another run is not read.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from mse_lab.errors import InputError
from mse_lab.probe.identity import digest
from mse_lab.results.files import write_arrays
from mse_lab.results.integrity import open_intact
from mse_lab.results.inventory import read_npz

T = TypeVar("T")

# To be raised with every change of what a shard holds or means: shards of other versions
# are measured again.
SHARD_VERSION = 12

START_AGAIN = "start again: its prompt is measured again"


def _seal(arrays: Mapping[str, NDArray[Any]], origin: str) -> str:
    held = [
        [name, array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
        for name, array in sorted(arrays.items())
    ]
    return digest([SHARD_VERSION, origin, held])


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
    marks = {"version": np.array(SHARD_VERSION), "seal": np.array(_seal(arrays, origin))}
    # Vectors of random numbers, read once: compressing them gains nothing.
    write_arrays(path, arrays | marks, compressed=False)


def load_shard(kind: type[T], path: Path, origin: str) -> T:
    """Read a dataclass of this kind; refuse one that is damaged or of another origin."""
    with open_intact(path, START_AGAIN) as file:
        arrays = read_npz(file)
        if not np.array_equal(arrays.pop("version", 0), SHARD_VERSION):
            raise ValueError("of another version")
        if arrays.pop("seal").item() != _seal(arrays, origin):
            raise ValueError("changed since, or of another run")
        return _from_arrays(kind, arrays)


def find_shard(kind: type[T], path: Path, origin: str) -> T | None:
    """Read a dataclass of this kind; None where `load_shard` refuses the file."""
    with suppress(InputError):
        return load_shard(kind, path, origin)
    return None
