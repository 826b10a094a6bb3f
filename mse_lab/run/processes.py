"""Processes: one measures a run, or several started by torchrun share its prompts.

Every prompt has its own file, so processes exchange little: decisions of the first one,
which prompt is next, counts for the progress bar. Here is the single process, which
`torchrun.TorchrunProcesses` extends, and the lock that keeps other starts out.
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

# Seconds to wait until a shared file system shows what another machine wrote; NFS clients
# remember for up to 60 that a file was absent.
PATIENCE = 120.0

# Seconds between two checks of a wait; Ctrl-C works in between.
PAUSE = 0.05

LOCK = ".lock"


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Check repeatedly, the first time at once; return whether it became true."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE)
    return True


def await_files(paths: Sequence[Path]) -> None:
    """Wait until this machine sees files that another one wrote; refuse a missing one."""
    if not wait_until(lambda: all(path.exists() for path in paths), PATIENCE):
        missing = next(path for path in paths if not path.exists())
        raise InputError(f"{missing}: is gone, or cannot be seen from here; start again")


@contextmanager
def lock(folder: Path) -> Iterator[str]:
    """Keep other starts out of a folder; a killed process releases it.

    Give the content of the lock file, different for every start.
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
        # While it is held, so that a waiting process sees that the file is gone.
        path.unlink(missing_ok=True)
        held.release()


class Processes:
    """The processes that share a run: of this class, this one alone."""

    rank = 0  # Which one this is; the first decides, writes and shows.
    restarted = False  # Whether torchrun has started them anew after one was lost.

    @property
    def first(self) -> bool:
        """Whether this one decides, writes and shows."""
        return self.rank == 0

    def place(self, probe: Probe) -> Probe:
        """Give the probe this process's own device."""
        return probe

    def agree(self, decide: Callable[[], T], kind: Any = Any) -> T:
        """Let the first process decide; all return its decision, a value of this type."""
        return decide()

    def gather(self, value: T) -> list[T]:
        """Return everybody's value, which JSON can hold, in order of the ranks."""
        return [value]

    def deal(self, todo: Sequence[int]) -> Iterator[int]:
        """Yield the items of this process; every item goes to one process only."""
        return iter(todo)

    def total(self, tally: Tally) -> Tally:
        """Share this process's tally; return the sum of those shared so far."""
        return tally

    def meet(self, watch: Callable[[], object] = lambda: None) -> None:
        """Wait until all processes are here, and call `watch` now and then meanwhile."""

    @contextmanager
    def hold(self, folder: Path) -> Iterator[None]:
        """Keep other starts out of a folder, see `lock`."""
        with lock(folder):
            yield


SINGLE_PROCESS = Processes()
