"""The line of an advice under way: completions so far, and what the last look said."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import std

from mse_lab.console import columns, show_status
from mse_lab.measurement.rounds import Look
from mse_lab.run.progress import note_load

LINE = "{desc}: {n_fmt} completions [{elapsed}{postfix}]"


class Narrowing:
    """Shows nothing."""

    def show(self, drawn: int) -> None:
        """Show how many completions there are."""

    def say(self, look: Look, words: str) -> None:
        """Show what a look said."""


class _Lines(Narrowing):
    """Without a terminal: a line for each look."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, look: Look, words: str) -> None:
        seconds = time.monotonic() - self._began
        drawn = f"{look.prompts} prompts, {look.drawn:,} completions, {seconds:.0f} s"
        print(f"{drawn}: {words}", file=sys.stderr)


class _Bar(Narrowing):
    """At a terminal: one line that changes."""

    def __init__(self, bar: std.tqdm) -> None:
        self._bar = bar

    def show(self, drawn: int) -> None:
        self._bar.n = drawn
        if width := columns():
            # The last column stays free: some terminals begin a new line behind it.
            self._bar.ncols = width - 1
        self._bar.refresh()

    def say(self, look: Look, words: str) -> None:
        self._bar.set_postfix_str(f"{look.prompts} prompts: {words}", refresh=False)
        self.show(look.drawn)


@contextmanager
def narrowing(name: str, *, hidden: bool) -> Iterator[Narrowing]:
    """Show an advice under way, unless `hidden`."""
    if hidden:
        yield Narrowing()
        return
    note_load()
    show_status()
    if not columns():
        yield _Lines()
        return
    with std.tqdm(desc=name, file=sys.stderr, bar_format=LINE, nrows=20) as bar:
        yield _Bar(bar)
