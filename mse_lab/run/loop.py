"""The measuring loop: what a store lacks is dealt to the processes, measured and stored.

    for batch in deal(missing): store[batch] = measure(batch)

A run asks for its prompts, an advice for blocks of completions; both come here. A store is
a `dict`, or the shards in a folder (`results/shards.py`), where `measuring` begins, or goes
on after a kill.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

from mse_lab.console import show_status
from mse_lab.errors import InputError, shorten
from mse_lab.results.files import remove
from mse_lab.results.folder import ResultsFolder
from mse_lab.results.measurement import PromptMeasurement, SampledPrompt
from mse_lab.results.shards import Item, Shards
from mse_lab.run.processes import PATIENCE, Processes, wait_until
from mse_lab.run.progress import Progress
from mse_lab.run.subject import Subject

# Items that are measured together. Since that may change the last digit, a batch depends on
# the configuration alone, never on what is missing.
Batch = tuple[Item, ...]

T = TypeVar("T")
Measured = TypeVar("Measured", PromptMeasurement, SampledPrompt)


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
        _drop(results, spoilt)


def _drop(results: ResultsFolder, spoilt: Sequence[Path]) -> None:
    """Remove the shards that cannot be gone on from, and say which."""
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
    line.begin(size(batches), size(batches) - size(todo))
    done = list(
        accumulate((size([each]) for each in todo), initial=size(batches) - size(todo))
    )
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
