"""The line of an advice under way: completions so far, and what the last look said."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import std

from mse_lab.console import columns, show_status
from mse_lab.measurement.rounds import Look

LINE = "{desc}: {n_fmt} completions [{elapsed}{postfix}]"


class Narrowing:
    """Shows one line that changes at a terminal, else a line for each look, or nothing."""

    def __init__(self, bar: std.tqdm | None = None, *, hidden: bool = True) -> None:
        self._bar, self._hidden, self._began = bar, hidden, time.monotonic()

    def show(self, drawn: int) -> None:
        """Show how many completions there are."""
        if self._bar is not None:
            self._bar.n = drawn
            if width := columns():
                # The last column stays free: some terminals begin a new line behind it.
                self._bar.ncols = width - 1
            self._bar.refresh()

    def say(self, look: Look, words: str) -> None:
        """Show what a look said."""
        if self._bar is not None:
            self._bar.set_postfix_str(f"{look.prompts} prompts: {words}", refresh=False)
            self.show(look.drawn)
        elif not self._hidden:
            seconds = time.monotonic() - self._began
            drawn = f"{look.prompts} prompts, {look.drawn:,} completions, {seconds:.0f} s"
            print(f"{drawn}: {words}", file=sys.stderr)


@contextmanager
def narrowing(name: str, *, hidden: bool) -> Iterator[Narrowing]:
    """Show an advice under way, unless `hidden`."""
    if not hidden:
        show_status()
    if hidden or not columns():
        yield Narrowing(hidden=hidden)
        return
    with std.tqdm(desc=name, file=sys.stderr, bar_format=LINE, nrows=20) as bar:
        yield Narrowing(bar)
