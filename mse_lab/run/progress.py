"""Progress: how far the measurement is, and early signs of one that would mean little."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tqdm import tqdm


class Tally(NamedTuple):
    """Prompts measured since the start: how many, and sums over them.

    Of their mean rewards, and of their shares of completions cut at the token limit.
    """

    prompts: int = 0
    reward: float = 0.0
    truncated: float = 0.0

    def describe(self) -> str:
        """Say what the completions are like so far; empty before the first prompt.

        >>> Tally(4, 1.0, 0.5).describe()
        ', mean reward 0.25, truncated 12%'
        """
        if not self.prompts:
            return ""
        reward, truncated = self.reward / self.prompts, self.truncated / self.prompts
        return f", mean reward {reward:.2f}, truncated {truncated:.0%}"


def add_up(tallies: Iterable[Tally]) -> Tally:
    """Add tallies up, field by field.

    >>> add_up([Tally(1, 0.5, 0.25), Tally(1, 0.25, 0.0)])
    Tally(prompts=2, reward=0.75, truncated=0.25)
    """
    return Tally(*(sum(column) for column in zip(*tallies, strict=True)))


@contextmanager
def progress(
    name: str, prompts: int, done: int, size: int, *, hidden: bool
) -> Iterator[Callable[[Tally], None]]:
    """Show prompts done, completions a second, the time left and what they are like.

    Yields:
        What shows everybody's tally so far, of prompts of `size` completions each.
    """
    with tqdm(
        total=prompts * size,
        initial=done * size,
        desc=f"{name}: sampling and scoring",
        unit=" completions",
        postfix=f"prompts {done}/{prompts}",
        dynamic_ncols=True,
        disable=hidden,
    ) as bar:

        def show(tally: Tally) -> None:
            now = done + tally.prompts
            bar.set_postfix_str(f"prompts {now}/{prompts}{tally.describe()}", refresh=False)
            bar.update(now * size - bar.n)

        yield show
