"""Progress: the line that says how far a run or an advice is.

A run counts its prompts, with their mean reward and share of cut completions. An advice
does not know how many completions it needs: its total is those of the look under way, and
it says what the last look gave.
"""

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tqdm import auto, std

from mse_lab.console import columns, show_status
from mse_lab.mse.measurement import PromptMeasurement
from mse_lab.run.looks import Look, looks

# Without a terminal a line is printed at every quarter and each minute.
QUARTERS, MINUTE = 4, 60.0

COUNTS = "{n_fmt}/{total_fmt} {unit} [{elapsed}<{remaining}{postfix}]"
BAR = "{desc}: {percentage:.0f}%|{bar}| " + COUNTS
LINE = "{desc}: {percentage:.0f}%, " + COUNTS


class Tally(NamedTuple):
    """Prompts measured since the start: how many, and sums over them."""

    prompts: int = 0
    reward: float = 0.0  # The sum of their mean rewards.
    truncated: float = 0.0  # The sum of their shares of completions cut at the token limit.

    @classmethod
    def of(cls, prompt: PromptMeasurement) -> "Tally":
        """Count one prompt."""
        return cls(1, prompt.mean_reward, prompt.completions.truncated)

    def __str__(self) -> str:
        reward, truncated = self.reward / self.prompts, self.truncated / self.prompts
        return f"mean reward {reward:.2f}, {truncated:.0%} cut"


def add_up(tallies: Iterable[Tally]) -> Tally:
    """Add tallies up, field by field.

    >>> add_up([Tally(1, 0.5, 0.25), Tally(1, 0.25, 0.0)])
    Tally(prompts=2, reward=0.75, truncated=0.25)
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


def refresh(bar: std.tqdm, count: int) -> None:
    """Show a bar at this count, as wide as the terminal is now."""
    bar.n = count
    if width := columns():
        # The last column stays free: some terminals begin a new line after it.
        bar.ncols = width - 1
    bar.refresh()


def make_bar(**options: Any) -> std.tqdm:
    """Make the bar for a notebook, for a terminal, or for neither."""
    options["smoothing"] = 0  # The time left by the mean speed.
    if auto.notebook_tqdm is not std.tqdm:
        return auto.tqdm(**options)
    # A terminal may say that it has no rows, and tqdm then shows nothing.
    return std.tqdm(**options, bar_format=BAR, nrows=20) if columns() else Lines(**options)


@contextmanager
def progress(
    name: str, prompts: int, done: int, *, hidden: bool
) -> Iterator[Callable[[Tally], None]]:
    """Show prompts done, the time left, and what their completions are like, unless hidden.

    Of all `prompts` an earlier start has measured `done`. Yield a function that shows the
    tally of all processes.
    """
    if hidden:
        yield lambda _: None
        return
    show_status()
    options = {"total": prompts, "initial": done, "desc": name, "file": sys.stderr}
    with make_bar(**options, unit="prompts") as bar:

        def show(tally: Tally) -> None:
            if tally.prompts:
                bar.set_postfix_str(str(tally), refresh=False)
            refresh(bar, done + tally.prompts)

        show(Tally())
        yield show


class AdviceProgress:
    """Shows how far a look is, and what each gave; nothing without a bar."""

    def __init__(self, bar: std.tqdm | None = None) -> None:
        self._bar, self._began, self._resumed = bar, time.monotonic(), False

    def begin(self, look: Look) -> Callable[[int], None]:
        """Begin a look; give what shows how many completions there are."""
        if (bar := self._bar) is None:
            return lambda _: None
        bar.total = look.drawn

        def show(drawn: int) -> None:
            if not self._resumed:  # What an earlier start has drawn took no time of this.
                bar.initial, self._resumed = drawn, True
            refresh(bar, drawn)

        return show

    def tell(self, lines: Callable[[], Sequence[str]]) -> None:
        """Show lines that stay; they are made only where they are shown."""
        for line in lines() if self._bar is not None else ():
            std.tqdm.write(line, file=sys.stderr)

    def say(self, look: Look, words: str) -> None:
        """Show what a look gave: after the bar, or in a line where there is no terminal."""
        if self._bar is None:
            return
        if columns():
            self._bar.set_postfix_str(f"{look.prompts} prompts: {words}")
            return
        seconds = time.monotonic() - self._began
        drawn = f"{look.prompts} prompts, {look.drawn:,} completions, {seconds:.0f} s"
        print(f"{drawn}: {words}", file=sys.stderr)


@contextmanager
def advice_progress(name: str, prompts: int, *, hidden: bool) -> Iterator[AdviceProgress]:
    """Show how far an advice by so many prompts is, unless `hidden`."""
    if hidden:
        yield AdviceProgress()
        return
    show_status()
    options = {"total": next(looks(prompts)).drawn, "initial": 0, "desc": name}
    with make_bar(**options, unit="completions", file=sys.stderr) as bar:
        yield AdviceProgress(bar)
