"""Looks: at which numbers of prompts, and of completions of each, an answer is sought.

Prompts come in a random order, for a set may be sorted by difficulty. At the first look
each has just enough completions for the law of a loss in groups of 8, TRL's default, or of
the size in use if that is larger. The next one has the completions that cost least in the
long run, if the first had not as many, and then the number of prompts grows by half from
look to look: so often `mse/bounds.py` allows for. Once all prompts are measured, each look
adds a block to each prompt, half as many completions as it has. Products between blocks
come from the blocks' gradients.

The number of completions at the first look does not depend on the time that they take, or
else the same probe would give other numbers on a busy machine.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, takewhile
from typing import NamedTuple

from mse_lab.data.streams import stream
from mse_lab.mse.one_pool import LEAST_COMPLETIONS
from mse_lab.mse.rule import FIRST_COMPLETIONS, FIRST_PROMPTS
from mse_lab.run.loop import Batch
from mse_lab.run.subject import Item

# Prompts of the second look.
SECOND_PROMPTS = 48

# Completions of each prompt from the second look on. With fewer the kernels are noisy and
# the best size is biased; beyond them, further prompts are worth more.
COMPLETIONS = 16

# The most looks at all prompts: at 16, 24, 36, 54, 81, 121, 181, 271 completions of each.
# Beyond them hardly anything but more prompts would narrow the interval.
FURTHER_LOOKS = 8

# Prompts that are drawn in one pass: of 8, SmolLM2's take .41 of what each alone takes, of
# 16 .38. A kill loses a batch, and processes share batches.
TOGETHER = 8

# The most right, and the most wrong, completions of a block that are differentiated where
# rewards are 0 and 1; of other rewards all are.
MOST_SCORED = (COMPLETIONS, COMPLETIONS)


def _by_half(first: int) -> Iterator[int]:
    """Count up from `first`, each number half as large again as the one before."""
    while True:
        yield first
        first += first // 2


def _prompts_of_looks() -> Iterator[int]:
    """Count the prompts of each look while there are more."""
    yield FIRST_PROMPTS
    yield from _by_half(SECOND_PROMPTS)


class Look(NamedTuple):
    """One look: what has been drawn when the answer is sought."""

    prompts: int  # How many, the first in their order.
    completions: int  # How many of each prompt.
    first: int = FIRST_COMPLETIONS  # How many at the first look.

    @property
    def drawn(self) -> int:
        """Completions in all."""
        return self.prompts * self.completions

    def blocks(self, place: int) -> list[range]:
        """The blocks of the prompt at a place of the order; a later look only adds blocks.

        >>> Look(60, 50).blocks(0)
        [range(0, 12), range(12, 16), range(16, 24), range(24, 36), range(36, 50)]
        >>> Look(60, 24).blocks(50)
        [range(0, 16), range(16, 24)]
        """
        each = max(COMPLETIONS, self.first)
        later = takewhile(lambda end: end < self.completions, _by_half(each))
        first = [self.first] if place < FIRST_PROMPTS else []
        ends = sorted({0, *first, *later, self.completions})
        return [range(*pair) for pair in pairwise(ends)]

    def items(self, order: Sequence[int]) -> list[list[Item]]:
        """List the blocks of each prompt as items of the measuring loop."""
        return [
            [(index, block.start, block.stop) for block in self.blocks(place)]
            for place, index in enumerate(order[: self.prompts])
        ]

    def batches(self, order: Sequence[int], lengths: Sequence[int]) -> list[Batch]:
        """List what is measured together, by the order and the lengths of all prompts.

        These are blocks of the same completions, of `TOGETHER` prompts of one number of
        tokens at most, all of which the same look adds: what it has in common with another
        look is the same batches in both.
        """
        alike: dict[tuple[int, ...], list[Item]] = {}
        for place, items in enumerate(self.items(order)):
            look = sum(1 for _ in takewhile(place.__ge__, _prompts_of_looks()))
            for index, *block in items:
                key = (look, lengths[index], *block)
                alike.setdefault(key, []).append((index, *block))
        return [
            tuple(items[first : first + TOGETHER])
            for items in alike.values()
            for first in range(0, len(items), TOGETHER)
        ]


def keyed_order(seed: int, ids: Sequence[str]) -> list[int]:
    """Order prompts at random, each by the seed and its own id.

    So the order of two prompts depends neither on other prompts nor on the file's order.

    >>> ids = ["a", "b", "c", "d"]
    >>> [ids[at] for at in keyed_order(0, ids)]
    ['d', 'a', 'b', 'c']
    """
    return sorted(range(len(ids)), key=lambda at: stream(seed, "order", ids[at]).random())


def first_completions(prompts: int, budget: int, needed: int) -> int:
    """Say how many completions the first look takes of each prompt.

    As many as are `needed`, where a budget has them for all its prompts.

    >>> [first_completions(60, 8192, needed) for needed in (11, 13, 35, 259)]
    [12, 16, 35, 12]
    """
    # A later block of fewer than four would say nothing.
    more = FIRST_COMPLETIONS if needed <= FIRST_COMPLETIONS else max(needed, COMPLETIONS)
    return more if min(prompts, FIRST_PROMPTS) * more <= budget else FIRST_COMPLETIONS


def _growing(prompts: int, first: int) -> Iterator[Look]:
    """List looks at more and more prompts, then at more and more completions of all."""
    counts, later = _prompts_of_looks(), max(COMPLETIONS, first)
    yield Look(min(next(counts), prompts), first, first)
    for count in takewhile(lambda count: count < prompts, counts):
        yield Look(count, later, first)
    for each in islice(_by_half(later), FURTHER_LOOKS):
        yield Look(prompts, each, first)


def _last(before: Look, prompts: int, budget: int) -> Look:
    """Take what is left of a budget: for more prompts, then for completions of all."""
    count = min(budget // before.completions, prompts)
    each = budget // prompts if count == prompts else before.completions
    enough = each >= before.completions + LEAST_COMPLETIONS
    return Look(count, each if enough else before.completions, before.first)


def looks(
    prompts: int,
    budget: int | None = None,
    *,
    first: int = FIRST_COMPLETIONS,
    spent: bool = False,
) -> list[Look]:
    """List the looks at a set of `prompts` prompts, within a budget of completions.

    A budget is at least that of the first look, at `first` completions of each prompt. The
    last look takes what is left of it; at the most completions of each prompt only if it is
    to be `spent`, where there are no other prompts.

    >>> [look.drawn for look in looks(60, 1000)]
    [384, 768, 960]
    >>> [look[:2] for look in looks(20, 500)]
    [(20, 12), (20, 16), (20, 24)]
    >>> looks(20, 8192)[-1].completions, looks(20, 8192, spent=True)[-1].completions
    (271, 409)
    """
    growing = list(dict.fromkeys(_growing(prompts, first)))
    within = [look for look in growing if budget is None or look.drawn <= budget]
    if budget is None or (len(within) == len(growing) and not spent):
        return within
    last = _last(within[-1] if within else Look(0, first, first), prompts, budget)
    if len(within) == len(growing):
        return [*within[:-1], last]
    return list(dict.fromkeys([*within, last]))
