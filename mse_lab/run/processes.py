"""Processes: one process measures a run, or several share its prompts.

Every prompt has its own file, so processes exchange little: decisions of the first one, and
who measures which prompt. This file has the single process, and the lock that keeps other
starts out of a folder; `torchrun.TorchrunProcesses` are the processes that torchrun starts.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from mse_lab.config.schema import Probe
from mse_lab.console import writing
from mse_lab.errors import InputError

T = TypeVar("T")

# Seconds to wait until a shared file system shows what another machine wrote; NFS clients
# remember for up to 60 that a file was absent.
PATIENCE = 120.0

# Seconds between two checks of a wait; Ctrl-C works in between.
PAUSE = 0.05

LOCK = ".lock"


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Check a condition at once and repeatedly; return whether it became true."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)
    return True


def end_with_parent(status: int) -> None:
    """Have this process end as soon as its parent has, in whatever it is doing.

    Workers of a torchrun that was killed would go on, and hear of it at their next word to
    one another only.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PAUSE)
        os._exit(status)

    Thread(target=watch, daemon=True).start()


@contextmanager
def lock(folder: Path) -> Iterator[str]:
    """Keep other starts out of a folder; the lock of a killed process is free.

    Yield the content of the lock file, which is another one for every start.
    """
    path, mark = folder / LOCK, str(time.time_ns())
    file_lock = FileLock(path, timeout=0)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            file_lock.acquire()
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
        # While it is taken, so that a waiting process sees that the file is gone.
        path.unlink(missing_ok=True)
        file_lock.release()


class Processes:
    """The processes that share a run, by default this one alone."""

    rank = 0  # The number of this process.

    @property
    def first(self) -> bool:
        """Whether this process decides, writes results and shows progress."""
        return self.rank == 0

    def assign_device(self, probe: Probe) -> Probe:
        """Give the probe with the device of this process."""
        return probe

    def agree(self, decide: Callable[[], T], kind: Any = Any) -> T:
        """Let the first process decide; all return its decision, of the type `kind`."""
        return decide()

    def deal(self, count: int) -> Iterator[int]:
        """Yield which of so many items this process is to do; each goes to one only."""
        return iter(range(count))

    def barrier(self) -> None:
        """Wait until all processes are here."""

    @contextmanager
    def locked(self, folder: Path) -> Iterator[None]:
        """Keep other starts out of a folder; see `lock`."""
        with lock(folder):
            yield


SINGLE_PROCESS = Processes()
