"""Samples: blocks of completions, in memory or in a folder, that an advice rests on."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from mse_lab.mse.measurement import SampledPrompt
from mse_lab.probe.identity import digest
from mse_lab.results.shard import find_shard, load_shard, save_shard
from mse_lab.run.looks import MOST_SCORED, Look, keyed_order
from mse_lab.run.prepare import RunContext
from mse_lab.run.processes import SINGLE_PROCESS, await_files
from mse_lab.run.progress import Tally, add_up
from mse_lab.run.sample import sample_prompt
from mse_lab.run.subject import Subject

# A prompt's index, and a block of its completions: numbers start to stop - 1.
Key = tuple[int, int, int]

# The blocks of a prompt.
SampledBlocks = tuple[SampledPrompt, ...]


class Samples:
    """Samples of a subject's prompts, in memory."""

    processes = SINGLE_PROCESS  # Those that share them.

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._sampled: dict[Key, SampledPrompt] = {}

    @cached_property
    def order(self) -> list[int]:
        """The prompts in the order in which looks add them."""
        ids = [prompt.id for prompt in self.subject.prompts]
        return keyed_order(self.subject.probe.seed, ids)

    def _keys(self, look: Look) -> list[Key]:
        prompts = self.order[: look.prompts]
        return [(index, each.start, each.stop) for each in look.blocks for index in prompts]

    def _is_checked(self, key: Key) -> bool:
        """Whether the gradient of a block is compared with autograd: the first one's."""
        return key[:2] == (self.order[0], 0)

    def _sample(self, key: Key) -> SampledPrompt:
        index, *block = key
        checked = self._is_checked(key)
        completions, most = range(*block), MOST_SCORED
        return sample_prompt(self.subject, index, completions, most, checked=checked)

    def has(self, key: Key) -> bool:
        """Whether a block is sampled; a file that cannot be used does not count."""
        return key in self._sampled

    def keep(self, key: Key, prompt: SampledPrompt) -> None:
        """Keep a block."""
        self._sampled[key] = prompt

    def _missing(self, look: Look) -> list[Key]:
        return [key for key in self._keys(look) if not self.has(key)]

    def measure(self, look: Look, show: Callable[[int], None]) -> None:
        """Sample the blocks that a look needs and that are missing.

        `show` is given the number of completions before each block, and at the end.
        """
        todo, done = self._missing(look), look.drawn
        done -= sum(stop - start for _, start, stop in todo)
        for key in todo:
            show(done)
            self.keep(key, self._sample(key))
            done += key[2] - key[1]
        show(done)

    def read(self, look: Look) -> list[SampledBlocks]:
        """Read the blocks of each prompt of a look."""
        return [
            tuple(self._sampled[index, block.start, block.stop] for block in look.blocks)
            for index in self.order[: look.prompts]
        ]


class KeptSamples(Samples):
    """Samples in the folder of an advice, each in a shard: a later start resumes there."""

    def __init__(self, context: RunContext) -> None:
        super().__init__(context.subject)
        self.processes, self._context = context.spec.processes, context

    def _shard(self, key: Key) -> tuple[Path, str]:
        """Give the path of a block's file, and its origin."""
        index, *block = key
        path = self._context.spec.results.sampled(*key)
        parts = [self._context.origin(index), block, MOST_SCORED, self._is_checked(key)]
        return path, digest(parts)

    def has(self, key: Key) -> bool:
        """Whether a block's file is there, intact, and of this advice."""
        if key not in self._sampled:
            sampled = find_shard(SampledPrompt, *self._shard(key))
            if sampled is not None:
                self._sampled[key] = sampled
        return key in self._sampled

    def keep(self, key: Key, prompt: SampledPrompt) -> None:
        """Write a block's file."""
        save_shard(prompt, *self._shard(key))

    def measure(self, look: Look, show: Callable[[int], None]) -> None:
        """Sample the blocks that a look needs and that are missing.

        Each process that is free takes the next one.
        """
        todo = self.processes.agree(lambda: self._missing(look), list[Key])
        done = look.drawn - sum(stop - start for _, start, stop in todo)
        tally = Tally()  # Counts completions here, not prompts.

        def refresh() -> None:
            show(done + self.processes.total(tally).prompts)

        for turn in self.processes.deal(range(len(todo))):
            refresh()
            key = _, start, stop = todo[turn]
            self.keep(key, self._sample(key))
            tally = add_up([tally, Tally(stop - start)])
        self.processes.meet(refresh)
        refresh()

    def read(self, look: Look) -> list[SampledBlocks]:
        """Read the blocks of each prompt of a look, once this machine sees them.

        It may see an older file of a block first, which another machine measured again.
        """
        shards = {
            key: self._shard(key) for key in self._keys(look) if key not in self._sampled
        }
        await_files(
            [path for path, _ in shards.values()], lambda: all(map(self.has, shards))
        )
        for key, shard in shards.items():
            if key not in self._sampled:
                self._sampled[key] = load_shard(SampledPrompt, *shard)
        return super().read(look)
