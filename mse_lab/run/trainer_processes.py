"""Processes of a trainer, each with the whole model, which share a measurement.

All of them take part in every exchange. A process that fails takes part in one more, in
which it says so, and the others fail with it: none is left waiting for the others, and the
exchanges of the training come after those of the measurement in all of them. If one is
lost, the training cannot go on, and all end.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from torch import distributed

from mse_lab.console import ending
from mse_lab.errors import InputError, ProcessLost, one_line
from mse_lab.run.processes import SINGLE_PROCESS, Processes, T
from mse_lab.run.torchrun import noticing_loss


class _Failure(NamedTuple):
    """What a process that has failed sends."""

    line: str


class FailedTogetherError(InputError):
    """An exchange has told that a process has failed: all have ended."""


class TrainerProcesses(Processes):
    """Those of torch's default group; they exchange what can be pickled."""

    def __init__(self) -> None:
        self.rank, self.count = distributed.get_rank(), distributed.get_world_size()

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes, by rank; fail where one has, or is gone."""
        values: list[Any] = [None] * self.count
        with noticing_loss():
            distributed.all_gather_object(values, value)
        for rank, each in enumerate(values):
            if isinstance(each, _Failure):
                raise FailedTogetherError(f"process {rank}: {each.line}")
        return values

    def agree(self, decide: Callable[[], T], kind: Any = Any) -> T:
        """Let the first process decide; all return its decision."""
        return self.gather(decide() if self.first else None)[0]  # type: ignore[return-value]

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """Raise an error of one process in all of them; end this one if one is lost."""
        try:
            try:
                yield
                self.gather(None)
            except (FailedTogetherError, ProcessLost):
                raise
            except Exception as error:
                with suppress(FailedTogetherError):
                    self.gather(_Failure(ending(error).line))
                raise
        except ProcessLost as error:
            why = one_line(f"a process was lost: the training ends here ({error})")
            raise SystemExit(f"mse_lab: {why}") from None


def join_trainer() -> Processes:
    """Give the processes of the training that runs in this one."""
    if distributed.is_available() and distributed.is_initialized():
        return TrainerProcesses()
    return SINGLE_PROCESS
