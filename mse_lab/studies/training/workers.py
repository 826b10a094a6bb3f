"""Work that is carried out in order, so many pieces at a time, each told when it ends."""

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

One = TypeVar("One")
Found = TypeVar("Found")


def _timed(work: Callable[[One], Found], one: One) -> tuple[Found, float]:
    began = time.monotonic()
    return work(one), time.monotonic() - began


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
    work: Callable[[One], Found], todo: Sequence[One], processes: int
) -> Iterator[tuple[One, Found, float]]:
    """Work on each; yield it, what was found, and the seconds, as each ends.

    Raises:
        InputError: A process was killed from outside.
    """
    if processes == 1:
        for one in todo:
            yield one, *_timed(work, one)
        return
    # Spawned, not forked: torch has threads.
    others = set(active_children())
    pool = ProcessPoolExecutor(
        processes, get_context("spawn"), initializer=_begin, initargs=(processes,)
    )
    try:
        pending = {pool.submit(_timed, work, one): one for one in todo}
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
