"""The processes that hold a model together, and how they wait for one another.

They vote by gloo, which reports a lost process at once; see `policy/sharding.py`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from mse_lab.errors import InputError, ProcessLost
from mse_lab.run.processes import PAUSE

# Seconds that processes which hold a model wait for one of them, such as for its rewards;
# and until torch gives such a wait up, too: a process with one under way cannot end.
LATE, GIVEN_UP = 1800.0, 5.0


@contextmanager
def noticing_loss() -> Iterator[None]:
    """Raise `ProcessLost` for the errors that torch raises where a connection is lost."""
    try:
        yield
    except RuntimeError as error:
        raise ProcessLost(str(error)) from error


def vote_groups(held: Sequence[Sequence[int]]) -> list[Any]:
    """Group the ranks that hold a model together; all processes call this, and alike."""
    limit = timedelta(seconds=LATE + GIVEN_UP)
    return [distributed.new_group([*ranks], limit, "gloo") for ranks in held]


class LateError(InputError):
    """A process has kept those that hold a model with it waiting for too long."""


class ModelPeers:
    """The processes of a group of gloo's that hold a model together."""

    def __init__(
        self, group: Any, heed: Callable[[], None], remedy: str = "start again"
    ) -> None:
        self._group, self._heed, self._remedy = group, heed, remedy

    def exchange(self, ballot: list[int], watch: Callable[[], object]) -> list[list[int]]:
        """Give a ballot and get all; `watch` is called now and then while they wait."""
        ballots = torch.zeros(self._group.size(), len(ballot), dtype=torch.long)
        ballots[self._group.rank()] = torch.tensor(ballot)
        with noticing_loss():
            work = distributed.all_reduce(ballots, group=self._group, async_op=True)
        self.wait(work, watch)
        return ballots.tolist()

    def wait(self, work: Any, watch: Callable[[], object] = lambda: None) -> None:
        """Wait for the others; refuse one that stays away.

        A gather takes less than a millisecond, a reward perhaps minutes. So the pauses grow
        with the wait. Python hears no Ctrl-C while torch waits.
        """
        began = time.monotonic()
        with noticing_loss():
            while not work.is_completed():
                waited = time.monotonic() - began
                time.sleep(min(PAUSE, waited / 10))
                if waited > PAUSE:
                    self._heed()
                    watch()
                if waited > LATE:
                    raise LateError(
                        "one of the processes that hold a model has kept the others "
                        f"waiting for {LATE:g} s; {self._remedy}"
                    )
            work.wait()
