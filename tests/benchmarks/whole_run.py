"""Whole runs: sampling, reference, errors at every group size, tables.

Both sides measure the same numbers of replicates: a pool of N completions a prompt is N / G
groups at every G. This tool's run is timed whole. The loops would take hours, but their
cost is a sum of equal pieces, so some pieces are timed and multiplied: a batch of
`generate`, 64 completions of the reference, one replicate at every group size (the three
estimators of the obvious loop cost the same). The obvious loop draws fresh completions for
each of its replicates, 15 N a prompt; `shared` draws the pool once.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import loops, tool
from benchmarks.agreement import compare_errors
from benchmarks.cases import ESTIMATORS, GROUP_SIZES, Case
from benchmarks.loops import plain_pass
from benchmarks.tables import Ratio, ratio, seconds, table, take_turns, verdict

BLOCK = max(GROUP_SIZES)
POINTS = len(ESTIMATORS) * len(GROUP_SIZES)
# The tiny checkpoint has the pools of its probe; the others a half of them, as costly
# parts keep their proportions.
TINY_POOLS = {"reference": 1024, "replicate": 256}
POOLS = {"reference": 512, "replicate": 128}
# Pieces shorter than this many seconds are timed several times over.
SHORTEST = 0.1
# The obvious loop is to need so many times this tool's time.
OF_TINY, OTHERS = 12, 8


class Ratios(NamedTuple):
    """The ratios of one case."""

    obvious: Ratio  # The obvious loop to this tool, whole runs.
    shared: Ratio  # The loop over shared completions to this tool, whole runs.
    # The obvious loop's passes for errors alone to this tool's scoring alone.
    errors: Ratio
    # This tool to the floor: its sampling, and a plain pass over all completions.
    floor: Ratio


def _piece(work: Callable[[], object]) -> float:
    """Time a piece, on average over enough calls."""
    first = seconds(work)
    calls = int(SHORTEST / first)
    return (first + sum(seconds(work) for _ in range(calls))) / (1 + calls)


class Pieces:
    """The pieces that the runs of one case consist of, timed over all its prompts."""

    def __init__(self, loaded: tool.Loaded) -> None:
        self.loaded = loaded
        self.pool = loaded.probe.pool
        self.blocks = []
        for index in range(len(loaded.prompts)):
            drawn = tool.sample(loaded, index, "replicate", BLOCK)
            against = tool.reference(loaded, index, drawn)
            self.blocks.append(tool.Scored(loaded, drawn, against, index))

    @property
    def pooled(self) -> int:
        """Completions that a prompt's pools hold."""
        return int(self.pool.reference + self.pool.replicate)

    def run(self, folder: Path) -> float:
        """This tool's whole run."""
        return seconds(partial(tool.run, self.loaded, folder))

    def generate_one(self) -> float:
        """Draw one completion of every prompt by `generate`, in a large batch."""
        ends = list(self.loaded.policy.end_tokens)
        batch = min(loops.SAMPLED, self.pooled)
        return sum(
            _piece(partial(loops.sample, block.work, batch, ends)) / batch
            for block in self.blocks
        )

    def reference(self) -> float:
        """Compute the loops' reference."""
        pieces = [_piece(partial(loops.reference, one.work)) for one in self.blocks]
        return sum(pieces) * self.pool.reference / BLOCK

    def _replicates(self, one: Callable[[tool.Scored, slice], object]) -> float:
        return sum(
            self.pool.replicate / size * _piece(partial(one, block, slice(0, size)))
            for block in self.blocks
            for size in GROUP_SIZES
        )

    def errors(self) -> float:
        """The obvious loop's errors: all replicates, group sizes and estimators."""
        return len(ESTIMATORS) * self._replicates(
            lambda block, group: loops.squared_error(block.work, "grpo", group)
        )

    def shared_errors(self) -> float:
        """The same with one forward pass for the estimators."""
        return self._replicates(
            lambda block, group: loops.squared_errors(block.work, ESTIMATORS, group)
        )

    def scoring(self) -> float:
        """This tool's scoring of the same completions."""
        pieces = [_piece(block.products) for block in self.blocks]
        return sum(pieces) * self.pool.replicate / BLOCK

    def sampling(self) -> float:
        """This tool's sampling of both pools."""
        return sum(
            seconds(partial(tool.sample, self.loaded, index, "reference", self.pooled))
            for index in range(len(self.blocks))
        )

    def plain_passes(self) -> float:
        """Plain passes over as many completions."""
        pieces = [_piece(partial(plain_pass, block.work)) for block in self.blocks]
        return sum(pieces) * self.pooled / BLOCK


def _add(*columns: list[float]) -> list[float]:
    return [sum(row) for row in zip(*columns, strict=True)]


def measure(case: Case, prompts: int, folder: Path, rounds: int) -> Ratios:
    """Take the ratios of one case with P prompts, medians of `rounds`."""
    pools = POOLS if case.size else TINY_POOLS
    pieces = Pieces(tool.load(case, folder, prompts=prompts, **pools))
    compare_errors(pieces.blocks[0].work, pieces.blocks[0].products())
    times = take_turns(
        {
            "run": partial(pieces.run, folder / "out"),
            "generate one": pieces.generate_one,
            "reference": pieces.reference,
            "errors": pieces.errors,
            "shared errors": pieces.shared_errors,
            "scoring": pieces.scoring,
            "sampling": pieces.sampling,
            "plain passes": pieces.plain_passes,
        },
        rounds,
    )

    def generated(count: int) -> list[float]:
        return [one * count for one in times["generate one"]]

    fresh = generated(pieces.pool.reference + POINTS * pieces.pool.replicate)
    once, reference = generated(pieces.pooled), times["reference"]
    return Ratios(
        obvious=ratio(_add(fresh, reference, times["errors"]), times["run"]),
        shared=ratio(_add(once, reference, times["shared errors"]), times["run"]),
        errors=ratio(times["errors"], times["scoring"]),
        floor=ratio(times["run"], _add(times["sampling"], times["plain passes"])),
    )


def report(runs: tuple[tuple[Case, int], ...], folder: Path, rounds: int) -> str:
    """Measure the runs one after the other and tabulate them."""
    rows, missed = [], []
    for case, prompts in runs:
        found = measure(case, prompts, folder, rounds)
        row = [case.model, case.shape, *found]
        print(*row, sep=" | ", file=sys.stderr, flush=True)
        rows.append(row)
        if found.obvious.median < (OTHERS if case.size else OF_TINY):
            missed.append(f"{case.model}, {case.shape}")
    head = [
        "model",
        "prompt + completion",
        "obvious loop / this tool",
        "shared completions / this tool",
        "errors alone, obvious loop / this tool",
        "this tool / floor",
    ]
    target = f"obvious loop at least {OTHERS} times, {OF_TINY} on the tiny model"
    return f"{table(head, rows)}\n\n{verdict(target, missed)}"
