"""Work on items in order, some at a time in processes; each is reported when it ends."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from typing import TypeVar

from mse_lab.errors import InputError

Item = TypeVar("Item")
Output = TypeVar("Output")


def _timed(work: Callable[[Item], Output], item: Item) -> tuple[Output, float]:
    began = time.monotonic()
    return work(item), time.monotonic() - began


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however that was killed."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _begin(processes: int) -> None:
    """In a process of its own, before torch is imported: leave cores to the others.

    A trainer of a small model is fastest where each has a thread.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(cores // processes, 1)))


def each(
    work: Callable[[Item], Output], todo: Sequence[Item], processes: int
) -> Iterator[tuple[Item, Output, float]]:
    """Work on each item; yield it, its output and its seconds when it ends.

    Raises:
        InputError: A process was killed from outside.
    """
    if processes == 1:
        for item in todo:
            yield item, *_timed(work, item)
        return
    # Spawned, not forked: torch has threads.
    others = set(active_children())
    pool = ProcessPoolExecutor(
        processes, get_context("spawn"), initializer=_begin, initargs=(processes,)
    )
    try:
        pending = {pool.submit(_timed, work, item): item for item in todo}
        for done in as_completed(pending):
            yield pending[done], *done.result()
    except BrokenProcessPool:
        raise InputError(
            f"--processes {processes}: one of them was killed, perhaps for lack of memory; "
            "the same command goes on, fewer need less"
        ) from None
    finally:
        # What still runs is of no use now.
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(active_children()) - others:
            child.terminate()
