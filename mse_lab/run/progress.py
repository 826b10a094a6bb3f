"""Progress: how far the measurement is, and early signs of one that would mean little."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from mse_lab.console import columns, show_status
from mse_lab.mse.measurement import PromptMeasurement
from mse_lab.wording import duration

# Where there is no terminal, how often a line is due: at every quarter, and each minute.
QUARTERS, MINUTE = 4, 60.0


class Tally(NamedTuple):
    """Prompts measured since the start: how many, and sums over them.

    Of their mean rewards, and of their shares of completions cut at the token limit.
    """

    prompts: int = 0
    reward: float = 0.0
    truncated: float = 0.0

    @classmethod
    def of(cls, prompt: PromptMeasurement) -> "Tally":
        """Count one prompt."""
        return cls(1, prompt.mean_reward, prompt.completions.truncated)


def add_up(tallies: Iterable[Tally]) -> Tally:
    """Add tallies up, field by field.

    >>> add_up([Tally(1, 0.5, 0.25), Tally(1, 0.25, 0.0)])
    Tally(prompts=2, reward=0.75, truncated=0.25)
    """
    return Tally(*(sum(column) for column in zip(*tallies, strict=True)))


def describe(prompts: int, done: int, tally: Tally, seconds: float) -> list[str]:
    """Say how far the work is, the most important first.

    Args:
        prompts: All of the run.
        done: Those that an earlier start has measured.
        tally: Those measured since this start.
        seconds: Time since this start.

    >>> describe(60, 0, Tally(15, 3.75, 7.5), 30.0)
    ['25%', '15/60 prompts', '1 min 30 s left', 'mean reward 0.25', '50% cut']
    """
    now = done + tally.prompts
    said = [f"{100 * now // prompts}%", f"{now}/{prompts} prompts"]
    if not tally.prompts:
        return said
    left = seconds / tally.prompts * (prompts - now)
    reward, truncated = tally.reward / tally.prompts, tally.truncated / tally.prompts
    return [
        *said,
        f"{duration(left)} left" if now < prompts else f"in {duration(seconds)}",
        f"mean reward {reward:.2f}",
        f"{truncated:.0%} cut",
    ]


@cache
def note_load() -> None:
    """Say, once a command, that others are using the processor, if they are."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores:
        show_status()
        print(
            f"note: this machine's load is {load:.1f}, and it has {cores} cores: times are "
            "longer than alone, numbers the same; end what else is running, or wait for it",
            file=sys.stderr,
        )


class Progress:
    """What is shown of the prompts of a run while they are measured."""

    def __init__(self, name: str, prompts: int, done: int) -> None:
        self._name, self._prompts, self._done = name, prompts, done
        self._began = self._shown = time.monotonic()
        self._last = done

    def show(self, tally: Tally) -> None:
        """Show everybody's tally so far: on a terminal always, elsewhere when it is due."""
        now, at = self._done + tally.prompts, time.monotonic()
        seconds = at - self._began
        share, *others = describe(self._prompts, self._done, tally, seconds)
        said = [f"{self._name} {share}", *others]
        if columns():
            show_status(*said)
        elif self._is_due(now, at):
            print(", ".join(said), file=sys.stderr)
            self._shown, self._last = at, now

    def _is_due(self, now: int, at: float) -> bool:
        quarter, before = (QUARTERS * count // self._prompts for count in (now, self._last))
        return quarter > before or (now > self._last and at - self._shown > MINUTE)


@contextmanager
def progress(
    name: str, prompts: int, done: int, *, hidden: bool
) -> Iterator[Callable[[Tally], None]]:
    """Show prompts done, the time left, and what their completions are like.

    On a terminal in one line; elsewhere now and then in a line of its own.

    Yields:
        What shows everybody's tally so far.
    """
    if hidden:
        yield lambda _: None
        return
    note_load()
    bar = Progress(name, prompts, done)
    bar.show(Tally())
    try:
        yield bar.show
    finally:
        if columns():
            print(file=sys.stderr)
