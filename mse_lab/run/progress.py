"""Progress: the line that says how far a run or an advice is.

A run counts its prompts. An advice does not know how many completions it needs: its total
is the most that it may draw, and each look leaves a line. Both say what completions are
like, their mean reward and the share that was cut.
"""

import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

from tqdm import auto, std

from mse_lab.console import columns, show_status
from mse_lab.formatting import duration, number, share
from mse_lab.results.measurement import PromptMeasurement, SampledPrompt

# Without a terminal a line is printed at every quarter and each minute.
QUARTERS, MINUTE = 4, 60.0

COUNTS = "{n_fmt}/{total_fmt} {unit} [{elapsed}<{remaining}{postfix}]"
BAR = "{desc}: {percentage:.0f}%|{bar}| " + COUNTS
LINE = "{desc}: {percentage:.0f}%, " + COUNTS


class Tally(NamedTuple):
    """What is measured since the start: how much, and sums over it."""

    done: int = 0  # Prompts of a run, or completions of an advice.
    reward: float = 0.0  # The sum of their mean rewards.
    truncated: float = 0.0  # The sum of their shares of completions cut at the token limit.

    @classmethod
    def of(cls, count: int, measured: Sequence[PromptMeasurement | SampledPrompt]) -> Self:
        """Count measurements, of equal shares, as so much."""
        each = count / len(measured)
        reward = sum(one.mean_reward for one in measured)
        truncated = sum(one.completions.truncated for one in measured)
        return cls(count, each * reward, each * truncated)

    def __str__(self) -> str:
        if not self.done:
            return ""
        reward, truncated = self.reward / self.done, self.truncated / self.done
        return f"mean reward {number(reward, 2)}, {share(truncated)} cut"


def add_up(tallies: Iterable[Tally]) -> Tally:
    """Add tallies up, field by field.

    >>> add_up([Tally(1, 0.5, 0.25), Tally(1, 0.25, 0.0)])
    Tally(done=2, reward=0.75, truncated=0.25)
    """
    return Tally(*(sum(column) for column in zip(*tallies, strict=True)))


class Lines(std.tqdm):  # type: ignore[misc]
    """A bar for a log file: a line of its own at every quarter, and each minute."""

    def __init__(self, **options: Any) -> None:
        self._shown, self._last = time.monotonic(), options["initial"]
        # With an infinite delay tqdm prints nothing by itself.
        super().__init__(**options, bar_format=LINE, delay=math.inf)

    def clear(self, *_: Any, **__: Any) -> None:
        """Leave the lines that stand: other lines go below them."""

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Print a line where one is due."""
        at = time.monotonic()
        quarter, before = (QUARTERS * n // self.total for n in (self.n, self._last))
        if quarter > before or (self.n > self._last and at - self._shown > MINUTE):
            print(self, file=self.fp)
            self._shown, self._last = at, self.n
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
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def begin(self, total: int, done: int) -> None:
        """Begin to count up to a total, of which so much is done already.

        The time to come is by what this start has done, not by what an earlier one had.
        """
        self._done = done
        if self._hidden:
            return
        if self._bar is None:
            show_status()
            total = self._most or total
            self._bar = make_bar(**self._options, total=total, initial=done)
        self.show(Tally())

    def show(self, tally: Tally) -> None:
        """Show what all processes have measured since it began to count."""
        if (bar := self._bar) is None:
            return
        bar.set_postfix_str(str(tally), refresh=False)
        bar.n = self._done + tally.done
        if width := columns():  # As wide as the terminal is now.
            # The last column stays free: some terminals begin a new line after it.
            bar.ncols = width - 1
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
