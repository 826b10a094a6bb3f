"""Processes: one measures a run alone, or several that torchrun started share its prompts.

Every prompt is a file of its own, so processes need little of each other: what the first
one decides, whose turn which prompt is, counts for the progress bar. Here is the process
that is alone, which `torchrun.TorchrunProcesses` extends, and the lock that keeps other
starts out.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from mse_lab.console import writing
from mse_lab.errors import InputError
from mse_lab.probe.schema import Probe
from mse_lab.run.progress import Tally

T = TypeVar("T")

# Seconds a shared file system is given to show what another machine wrote; NFS clients
# believe for up to 60 that a file which was not there is not there.
PATIENCE = 120.0

# Seconds between two looks at a wait; Ctrl-C is heard in between.
PAUSE = 0.05

LOCK = ".lock"


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Look again and again, the first time at once; return whether it came true."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)
    return True


@contextmanager
def lock(folder: Path) -> Iterator[str]:
    """Keep other starts out of a folder; a process that is killed lets go of it.

    Yields:
        What stands in the lock, different for every start.

    Raises:
        InputError: Another start is at work there, or the folder cannot be written.
    """
    path, mark = folder / LOCK, str(time.time_ns())
    held = FileLock(path, timeout=0)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            held.acquire()
        except Timeout:
            raise InputError(
                f"{folder}: another start is measuring there; wait for it, "
                "or choose another --out"
            ) from None
    try:
        with writing(folder):
            path.write_text(mark)
        yield mark
    finally:
        # While it is held: whoever waits for it sees that the file is gone, and looks anew.
        path.unlink(missing_ok=True)
        held.release()


class Processes:
    """The processes that share a run: of this class, this one alone.

    Attributes:
        rank: Which one this is, from 0; the first decides, writes and shows.
        restarted: Whether torchrun has started them anew after one was lost.
    """

    rank = 0
    restarted = False

    @property
    def first(self) -> bool:
        """Whether this one decides, writes and shows."""
        return self.rank == 0

    def place(self, probe: Probe) -> Probe:
        """Give the probe this process's own device."""
        return probe

    def agree(self, decide: Callable[[], T], kind: Any = Any) -> T:
        """Let the first process decide; all return what it did, a value of this type."""
        return decide()

    def gather(self, value: T) -> list[T]:
        """Return everybody's value, which JSON can hold, in order of the ranks."""
        return [value]

    def deal(self, todo: Sequence[int]) -> Iterator[int]:
        """Yield what is this process's to do, every item to one process only."""
        return iter(todo)

    def total(self, tally: Tally) -> Tally:
        """Tell the others this process's tally; add up everybody's, so far as told."""
        return tally

    def meet(self, watch: Callable[[], object] = lambda: None) -> None:
        """Wait until all are here, `watch` being called now and then meanwhile."""

    @contextmanager
    def hold(self, folder: Path) -> Iterator[None]:
        """Keep other starts out of a folder, see `lock`."""
        with lock(folder):
            yield


SINGLE_PROCESS = Processes()
