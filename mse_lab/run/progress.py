"""Progress: how far the measurement is, its mean reward and share of cut completions."""

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tqdm import auto, std

from mse_lab.console import columns, show_status
from mse_lab.mse.measurement import PromptMeasurement

# Without a terminal a line is printed at every quarter and each minute.
QUARTERS, MINUTE = 4, 60.0

COUNTS = "{n_fmt}/{total_fmt} prompts [{elapsed}<{remaining}{postfix}]"
BAR = "{desc}: {percentage:.0f}%|{bar}| " + COUNTS
LINE = "{desc}: {percentage:.0f}%, " + COUNTS


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
        # With an infinite delay tqdm itself prints nothing.
        super().__init__(**options, bar_format=LINE, delay=math.inf)

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Print a line where one is due."""
        at = time.monotonic()
        quarter, before = (QUARTERS * n // self.total for n in (self.n, self._last))
        if quarter > before or (self.n > self._last and at - self._shown > MINUTE):
            print(self, file=self.fp)
            self._shown, self._last = at, self.n
        return True


def _make_bar(**options: Any) -> std.tqdm:
    """Make the bar of a notebook, of a terminal, or of neither."""
    if auto.notebook_tqdm is not std.tqdm:
        return auto.tqdm(**options)
    # A terminal may say that it has no rows, and tqdm then shows nothing.
    return std.tqdm(**options, bar_format=BAR, nrows=20) if columns() else Lines(**options)


@contextmanager
def progress(
    name: str, prompts: int, done: int, *, hidden: bool
) -> Iterator[Callable[[Tally], None]]:
    """Show prompts done, the time left, and what their completions are like, or nothing.

    An earlier start has measured `done`. Give what shows the tally of all processes.
    """
    if hidden:
        yield lambda _: None
        return
    show_status()
    options = {"total": prompts, "initial": done, "desc": name, "file": sys.stderr}
    with _make_bar(**options, smoothing=0) as bar:

        def show(tally: Tally) -> None:
            bar.n = done + tally.prompts
            if width := columns():
                # The last column stays free: some terminals begin a new line behind it.
                bar.ncols = width - 1
            if tally.prompts:
                bar.set_postfix_str(str(tally), refresh=False)
            bar.refresh()

        show(Tally())
        yield show
