"""Rounds: which prompts, and how many completions of each, until an answer is known.

Prompts come in a random order, for a set may be sorted by difficulty. An answer is looked
for at fixed numbers of prompts, each half as large again as the one before: an interval
that is looked at so often keeps its level (Chow and Robbins 1965). Once all prompts are
measured there are more completions of each, half as many again at a time: a block more,
whose products with those of earlier blocks are had by the blocks' gradients.

How many completions a prompt gets at first is no function of the time that they take: then
the same probe would give other numbers on a busy machine.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, takewhile
from typing import NamedTuple

from mse_lab.mse.one_pool import LEAST_COMPLETIONS
from mse_lab.probe.streams import stream

# Prompts of the first look, and completions of each: with 8 the kernels of few completions
# are too noisy and the best size is biased, beyond 16 other prompts tell more.
FIRST, EACH = 24, 16

# Looks at which prompts get more completions, at most: 16, 24, 36, 54, 81, 121, 181, 271.
# Beyond them next to nothing but prompts is missing.
MORE = 8

# Of a block's rewards 0 and 1 so many right and so many wrong ones are differentiated.
SCORED = (EACH, EACH)


def _by_half(first: int) -> Iterator[int]:
    """Count up, each number half as large again as the one before."""
    while True:
        yield first
        first += first // 2


class Look(NamedTuple):
    """A look at the answer: prompts, the first of their order, and completions of each."""

    prompts: int
    completions: int

    @property
    def drawn(self) -> int:
        """Completions in all."""
        return self.prompts * self.completions

    @property
    def blocks(self) -> list[range]:
        """The blocks of a prompt's completions, the same for all looks as far as they go.

        >>> Look(60, 50).blocks
        [range(0, 16), range(16, 24), range(24, 36), range(36, 50)]
        """
        ends = takewhile(lambda end: end < self.completions, _by_half(EACH))
        return [range(*pair) for pair in pairwise([0, *ends, self.completions])]


def keyed_order(seed: int, ids: Sequence[str]) -> list[int]:
    """Order prompts at random, by seed and id: the others and their order do not matter.

    >>> ids = ["a", "b", "c", "d"]
    >>> [ids[at] for at in keyed_order(0, ids)]
    ['d', 'a', 'b', 'c']
    """
    return sorted(range(len(ids)), key=lambda at: stream(seed, "order", ids[at]).random())


def _growing(prompts: int) -> Iterator[Look]:
    """More and more prompts, then more and more completions of each."""
    for count in takewhile(lambda count: count < prompts, _by_half(FIRST)):
        yield Look(count, EACH)
    for each in islice(_by_half(EACH), MORE):
        yield Look(prompts, each)


def looks(prompts: int, budget: int | None = None) -> Iterator[Look]:
    """List the looks at so many prompts, within a budget of completions, if there is one.

    It is that of the first look or more; the last look takes what is left of it.

    >>> [look.drawn for look in looks(60, 1000)]
    [384, 576, 864, 960]
    >>> [tuple(look) for look in looks(20, 500)]
    [(20, 16), (20, 24)]
    """
    before = Look(0, 0)
    for look in _growing(prompts):
        if budget is not None and look.drawn > budget:
            if look.completions == EACH:
                last = Look(budget // EACH, EACH)
                least = Look(before.prompts + 1, EACH)
            else:
                last = Look(prompts, budget // prompts)
                least = Look(prompts, before.completions + LEAST_COMPLETIONS)
            if last.drawn >= least.drawn:
                yield last
            return
        yield look
        before = look
