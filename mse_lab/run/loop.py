"""The measuring loop: what a store lacks is dealt to the processes, measured and stored.

    for batch in deal(missing): store[batch] = measure(batch)

A run asks for its prompts, an advice for blocks of completions; both come here. A store is
a `dict`, or shards in a folder, where `measuring` begins, or goes on after a kill.

A shard is the file of a dataclass, such as `PromptMeasurement`. It bears a seal: a digest
of its content and of its origin, which is what was measured. A shard that is damaged,
changed, or of another run is not read. Each is written whole or not at all; a kill loses
what is being measured.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from mse_lab.console import show_status
from mse_lab.data.identity import digest_arrays
from mse_lab.errors import InputError, shorten
from mse_lab.results.files import npz_bytes, open_intact, remove, vanished, write_bytes
from mse_lab.results.folder import read_npz
from mse_lab.results.measurement import PromptMeasurement, SampledPrompt
from mse_lab.run.processes import PATIENCE, Processes, wait_until
from mse_lab.run.progress import Progress
from mse_lab.run.subject import Item, Subject

# Items that are measured together. Since that may change the last digit, a batch depends on
# the configuration alone, never on what is missing.
Batch = tuple[Item, ...]

T = TypeVar("T")
Measured = TypeVar("Measured", PromptMeasurement, SampledPrompt)

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


# Where measurements are, by item.
Store = dict[Item, T] | Shards[T]


@contextmanager
def measuring(
    subject: Subject, kind: type[Measured], *, fresh: bool
) -> Iterator[Shards[Measured]]:
    """Keep other starts out of a folder of results, and measure there.

    What an earlier start has begun there is resumed, or with `fresh` removed: only now,
    when all input is known to be usable.
    """
    processes, folder = subject.processes, subject.folder
    shards = Shards(kind, folder.file("shards"), subject.origin)
    processes.barrier()
    with processes.locked(folder.path):
        processes.agree(lambda: _begin(subject, shards, fresh=fresh))
        yield shards


def _begin(subject: Subject, shards: Shards[Measured], *, fresh: bool) -> None:
    results = subject.folder
    results.refuse_foreign()
    if fresh:
        results.clear()
    else:
        results.refuse_other(subject.probe, subject.identity)
        if results.is_complete():
            # It was not when this start began to load the model.
            raise InputError(f"{results.path}: another start has finished it meanwhile")
    results.begin(subject.probe, subject.identity)
    if spoilt := [shards.path(item) for item in shards.items() if item not in shards]:
        names = shorten(", ".join(path.name for path in spoilt))
        show_status()
        print(
            f"{results.path}: {len(spoilt)} measurements are made again: what there is of "
            f"them ({names} in shards/) is damaged, or of another run or version",
            file=sys.stderr,
        )
        for path in spoilt:
            remove(path)


def missing(store: Store[T], batches: Sequence[Batch]) -> list[Batch]:
    """List the batches of which an item is not measured."""
    return [batch for batch in batches if not all(item in store for item in batch)]


def size(batches: Sequence[Batch]) -> int:
    """Count as the progress line does: prompts of a run, or completions of an advice.

    >>> size([((3,),), ((4,),)]), size([((3, 0, 8), (4, 0, 8))])
    (2, 16)
    """
    blocks = [block for batch in batches for _, *block in batch]
    return sum(block[1] - block[0] if block else 1 for block in blocks)


def fill(
    store: Store[Measured],
    batches: Sequence[Batch],
    measure: Callable[[Batch], Sequence[Measured]],
    processes: Processes,
    line: Progress,
) -> None:
    """Measure the batches of which a store lacks an item, and store their items.

    Each process takes the next batch when it is free, and returns when all are measured.
    """
    todo = processes.agree(lambda: missing(store, batches), list[Batch])
    before = size(batches) - size(todo)
    line.begin(size(batches), before)
    done = list(accumulate((size([each]) for each in todo), initial=before))
    for turn in processes.deal(len(todo)):
        batch = todo[turn]
        measurements = measure(batch)
        for item, measured in zip(batch, measurements, strict=True):
            store[item] = measured
        # Those dealt before it are measured, or some other process is about to be done.
        line.count(done[turn + 1], size([batch]), measurements)
    processes.barrier()
    line.show(done[-1])


def read_measurements(store: Store[T], items: Sequence[Item]) -> list[T]:
    """Read measurements, once this machine sees what others have written."""
    wait_until(lambda: all(item in store for item in items), PATIENCE)
    return [store[item] for item in items]
