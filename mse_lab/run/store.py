"""Shards: what is measured in a folder, a file an item, from which a later start goes on.

Each is written whole or not at all; a kill loses the batch that is being measured.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic

from mse_lab.console import show_status
from mse_lab.errors import InputError, shorten
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.shard import find_shard, load_shard, save_shard
from mse_lab.run.loop import Item, Measured
from mse_lab.run.prepare import RunContext


class Shards(Generic[Measured]):
    """The measurements in a folder of results, by item."""

    def __init__(self, kind: type[Measured], context: RunContext) -> None:
        self._kind: type[Measured] = kind
        self._context = context
        self._read: dict[Item, Measured] = {}  # Each file is read once.

    def _file(self, item: Item) -> tuple[Path, str]:
        """Give the path of an item's file, and its origin."""
        return self._context.spec.results.shard(item), self._context.origin(item)

    def __contains__(self, item: Item) -> bool:
        """Whether an item's file is there, intact, and of this very measurement."""
        if item not in self._read:
            if (found := find_shard(self._kind, *self._file(item))) is None:
                return False
            self._read[item] = found
        return True

    def __getitem__(self, item: Item) -> Measured:
        """Read an item's file; refuse one that is not there or not intact."""
        if item not in self._read:
            path, origin = self._file(item)
            if not path.exists():
                raise InputError(
                    f"{path}: is gone, or cannot be seen from here; start again"
                )
            self._read[item] = load_shard(self._kind, path, origin)
        return self._read[item]

    def __setitem__(self, item: Item, measured: Measured) -> None:
        """Write an item's file."""
        save_shard(measured, *self._file(item))


@contextmanager
def measuring(
    context: RunContext, kind: type[Measured], *, fresh: bool
) -> Iterator[Shards[Measured]]:
    """Keep other starts out of a folder of results, and measure there.

    What an earlier start has begun there is resumed, or with `fresh` removed: only now,
    when all input is known to be usable.
    """
    processes, store = context.spec.processes, Shards(kind, context)
    processes.barrier()
    with processes.locked(context.spec.results.path):
        processes.agree(lambda: _begin(context, store, fresh=fresh))
        yield store


def _begin(context: RunContext, store: Shards[Measured], *, fresh: bool) -> None:
    spec, results = context.spec, context.spec.results
    results.refuse_foreign()
    if fresh:
        results.clear()
    else:
        results.refuse_other(spec.probe, spec.digest, context.identity)
        if results.is_complete():
            # It was not when this start began to load the model.
            raise InputError(f"{results.path}: another start has finished it meanwhile")
    results.begin(spec.probe, spec.digest, context.identity)
    if spoilt := [item for item in results.shards() if item not in store]:
        _drop(results, spoilt)


def _drop(results: ResultsFolder, spoilt: Sequence[Item]) -> None:
    """Remove the files that cannot be gone on from, and say which."""
    names = shorten(", ".join(results.shard(item).name for item in spoilt))
    show_status()
    print(
        f"{results.path}: {len(spoilt)} measurements are made again: what there is of "
        f"them ({names} in shards/) is damaged, or of another run or version",
        file=sys.stderr,
    )
    for item in spoilt:
        results.drop_shard(item)
