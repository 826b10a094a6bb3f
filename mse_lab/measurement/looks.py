"""Looks: at which numbers of prompts, and of completions of each, an answer is sought.

Prompts come in a random order, for a set may be sorted by difficulty. The looks are at
fixed numbers of prompts, each half as large again as the one before: an interval that is
looked at this often keeps its level (Chow and Robbins 1965). Once all prompts are measured,
each look adds a block to each prompt, half as many completions as it has. Products between
blocks come from the blocks' gradients.

The number of completions at the first look does not depend on the time that they take, or
else the same probe would give other numbers on a busy machine.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, takewhile
from typing import NamedTuple

from mse_lab.mse.one_pool import LEAST_COMPLETIONS
from mse_lab.probe.streams import stream

# Prompts of the first look, and completions of each. With 8 the kernels of few completions
# are too noisy and the best size is biased; beyond 16, further prompts are worth more.
FIRST_PROMPTS, FIRST_COMPLETIONS = 24, 16

# The most looks at all prompts: at 16, 24, 36, 54, 81, 121, 181, 271 completions of each.
# Beyond them hardly anything but more prompts would narrow the interval.
FURTHER_LOOKS = 8

# The most right, and the most wrong, completions of a block that are differentiated where
# rewards are 0 and 1; of other rewards all are.
MOST_SCORED = (FIRST_COMPLETIONS, FIRST_COMPLETIONS)


def _by_half(first: int) -> Iterator[int]:
    """Count up from `first`, each number half as large again as the one before."""
    while True:
        yield first
        first += first // 2


class Look(NamedTuple):
    """One look: what has been drawn when the answer is sought."""

    prompts: int  # How many, the first in their order.
    completions: int  # How many of each prompt.

    @property
    def drawn(self) -> int:
        """Completions in all."""
        return self.prompts * self.completions

    @property
    def blocks(self) -> list[range]:
        """The blocks of a prompt's completions; a later look only adds blocks.

        >>> Look(60, 50).blocks
        [range(0, 16), range(16, 24), range(24, 36), range(36, 50)]
        """
        ends = takewhile(lambda end: end < self.completions, _by_half(FIRST_COMPLETIONS))
        return [range(*pair) for pair in pairwise([0, *ends, self.completions])]


def keyed_order(seed: int, ids: Sequence[str]) -> list[int]:
    """Order prompts at random, each by the seed and its own id.

    So the order of two prompts depends neither on other prompts nor on the file's order.

    >>> ids = ["a", "b", "c", "d"]
    >>> [ids[at] for at in keyed_order(0, ids)]
    ['d', 'a', 'b', 'c']
    """
    return sorted(range(len(ids)), key=lambda at: stream(seed, "order", ids[at]).random())


def _growing(prompts: int) -> Iterator[Look]:
    """List looks at more and more prompts, then at more and more completions of all."""
    for count in takewhile(lambda count: count < prompts, _by_half(FIRST_PROMPTS)):
        yield Look(count, FIRST_COMPLETIONS)
    for each in islice(_by_half(FIRST_COMPLETIONS), FURTHER_LOOKS):
        yield Look(prompts, each)


def looks(prompts: int, budget: int | None = None) -> Iterator[Look]:
    """List the looks at a set of `prompts` prompts, within a budget of completions.

    A budget is at least that of the first look; the last look takes what is left of it.

    >>> [look.drawn for look in looks(60, 1000)]
    [384, 576, 864, 960]
    >>> [tuple(look) for look in looks(20, 500)]
    [(20, 16), (20, 24)]
    """
    before = Look(0, 0)
    for look in _growing(prompts):
        if budget is not None and look.drawn > budget:
            if look.completions == FIRST_COMPLETIONS:
                last = Look(budget // FIRST_COMPLETIONS, FIRST_COMPLETIONS)
                least = Look(before.prompts + 1, FIRST_COMPLETIONS)
            else:
                last = Look(prompts, budget // prompts)
                least = Look(prompts, before.completions + LEAST_COMPLETIONS)
            if last.drawn >= least.drawn:
                yield last
            return
        yield look
        before = look
