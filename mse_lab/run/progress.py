"""Progress: the line that says how far a run or an advice is.

A run counts its prompts. An advice does not know how many completions it needs: its total
is the most that it may draw, and each look leaves a line. Both say what completions are
like that this process has measured, their mean reward and the share that was cut.
"""

import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from tqdm import auto, std

from mse_lab.console import columns, show_status
from mse_lab.formatting import duration, number, share
from mse_lab.results.measurement import PromptMeasurement, SampledPrompt

# Without a terminal a line is printed each minute.
MINUTE = 60.0

COUNTS = "{n_fmt}/{total_fmt} {unit} [{elapsed}<{remaining}{postfix}]"
BAR = "{desc}: {percentage:.0f}%|{bar}| " + COUNTS
LINE = "{desc}: {percentage:.0f}%, " + COUNTS


class Lines(std.tqdm):  # type: ignore[misc]
    """A bar for a log file: a line of its own each minute."""

    def __init__(self, **options: Any) -> None:
        self._shown = time.monotonic()
        # With an infinite delay tqdm prints nothing by itself.
        super().__init__(**options, bar_format=LINE, delay=math.inf)

    def clear(self, *_: Any, **__: Any) -> None:
        """Leave the lines that stand: other lines go below them."""

    def display(self, *_: Any, **__: Any) -> bool:
        """Print a line where one is due."""
        if time.monotonic() - self._shown > MINUTE:
            print(self, file=self.fp)
            self._shown = time.monotonic()
        return True


def make_bar(**options: Any) -> std.tqdm:
    """Make the bar for a notebook, for a terminal, or for neither."""
    options["smoothing"] = 0  # The time left by the mean speed.
    if auto.notebook_tqdm is not std.tqdm:
        return auto.tqdm(**options)
    # A terminal may say that it has no rows, and tqdm then shows nothing.
    return std.tqdm(**options, bar_format=BAR, nrows=20) if columns() else Lines(**options)


class Progress:
    """The line of a run or of an advice, to be closed by a `with`; nothing if `hidden`.

    Its total is `most`, where that is given, however little is begun.
    """

    def __init__(self, name: str, unit: str, *, hidden: bool, most: int = 0) -> None:
        self._options = {"desc": name, "unit": unit, "file": sys.stderr}
        self._hidden, self._most, self._began = hidden, most, time.monotonic()
        self._bar: std.tqdm | None = None  # There is none before the first total.
        self._sums = np.zeros(3)  # What was measured here, times 1, reward and cut.

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def begin(self, total: int, done: int) -> None:
        """Begin to count up to a total, of which so much is done already.

        The time to come is by what this start has done, not by what an earlier one had.
        """
        if self._hidden:
            return
        if self._bar is None:
            show_status()
            total = self._most or total
            self._bar = make_bar(**self._options, total=total, initial=done)
        self.show(done)

    def count(
        self, done: int, count: int, measured: Sequence[PromptMeasurement | SampledPrompt]
    ) -> None:
        """Show that so much is done in all, of which these are the last, worth `count`."""
        reward = np.mean([one.mean_reward for one in measured])
        cut = np.mean([one.completions.truncated for one in measured])
        self._sums += count * np.array([1.0, reward, cut])
        self.show(done)

    def show(self, done: int) -> None:
        """Show that so much is done in all."""
        if (bar := self._bar) is None:
            return
        whole, reward, cut = self._sums
        if whole:
            said = f"mean reward {number(reward / whole, 2)}, {share(cut / whole)} cut"
            bar.set_postfix_str(said, refresh=False)
        if width := columns():  # As wide as the terminal is now.
            # The last column stays free: some terminals begin a new line after it.
            bar.ncols = width - 1
        bar.n = done
        bar.refresh()

    def write(self, lines: Callable[[], Sequence[str]]) -> None:
        """Show lines that stay; they are made only where they are shown."""
        if self._hidden:
            return
        show_status()
        for line in lines():
            std.tqdm.write(line, file=sys.stderr)

    def say(self, prompts: int, drawn: int, words: str) -> None:
        """Show what so many prompts and completions tell."""
        seconds = time.monotonic() - self._began
        drawn_so = f"{prompts} prompts, {drawn:,} completions, {duration(round(seconds))}"
        self.write(lambda: [f"{drawn_so}: {words}"])
