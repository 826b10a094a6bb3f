"""Scoring one block of completions: this tool, the floor, the libraries."""

import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from benchmarks import tool
from benchmarks.agreement import TOLERANCE, compare_errors, compare_products
from benchmarks.loops import plain_pass
from benchmarks.per_sample import LIBRARIES
from benchmarks.plan import Block
from benchmarks.tables import Ratio, ratio, seconds, table, take_turns, verdict

# Completions of the reference; it only has to be a vector to multiply with.
REFERENCE = 64

FLOOR, TOOL = "floor", "tool"

# Scoring is to take at most so many times the floor.
ABOVE_FLOOR = 1.5


def prepare(block: Block, folder: Path, patterns: list[str] | None = None) -> tool.Scored:
    """Load a case with the parameters that match, and draw its block."""
    loaded = tool.load(block.case, folder, parameters=patterns)
    against = tool.reference(loaded, 0, tool.sample(loaded, 0, "reference", REFERENCE))
    drawn = tool.sample(loaded, 0, "replicate", block.completions)
    return tool.Scored(loaded, drawn, against)


def installed() -> dict[str, ModuleType]:
    """List the libraries that can be used here."""
    return {name: one for name, one in LIBRARIES.items() if one.why_not() is None}


def _race(
    scored: tool.Scored, libraries: dict[str, ModuleType], rounds: int, *, floor: bool
) -> dict[str, Ratio]:
    """Time this tool, the libraries and the floor in turn, once they are seen to agree."""
    work, ours = scored.work, scored.products()
    compare_errors(work, ours)
    ways = {TOOL: partial(seconds, scored.products)}
    for name, library in libraries.items():
        tolerance = getattr(library, "TOLERANCE", TOLERANCE)
        compare_products(name, work, ours, library.gram(work), tolerance)
        ways[name] = partial(seconds, partial(library.gram, work))
    if floor:
        plain_pass(work)
        ways[FLOOR] = partial(seconds, partial(plain_pass, work))
    times = take_turns(ways, rounds)
    found = {name: ratio(times[name], times[TOOL]) for name in libraries}
    return {FLOOR: ratio(times[TOOL], times[FLOOR]), **found} if floor else found


class Measured(NamedTuple):
    """What is measured of one block."""

    distinct: int  # Completions that are not repeated; this tool scores no others.
    # This tool to the floor, and each library to this tool over the parameters that the
    # library covers.
    ratios: dict[str, Ratio]


def measure(block: Block, folder: Path, rounds: int) -> Measured:
    """Take the ratios of one block."""
    libraries = installed() if block.libraries else {}
    whole = {name: one for name, one in libraries.items() if one.PARAMETERS is None}
    scored = prepare(block, folder)
    found = _race(scored, whole, rounds, floor=True)
    for name, one in libraries.items():
        if name not in whole:
            scored = prepare(block, folder, one.PARAMETERS)
            found |= _race(scored, {name: one}, rounds, floor=False)
    return Measured(len(scored.completions.distinct()[0]), found)


def report(blocks: tuple[Block, ...], folder: Path, rounds: int) -> str:
    """Measure the blocks one after the other and tabulate them."""
    rows, slow, behind = [], [], []
    for block in blocks:
        distinct, found = measure(block, folder, rounds)
        cells = [found.get(name, "") for name in (FLOOR, *LIBRARIES)]
        row = [block.case.model, block.case.shape, block.completions, distinct, *cells]
        print(*row, sep=" | ", file=sys.stderr, flush=True)
        rows.append(row)
        where = f"{block.case.model}, {block.case.shape}"
        if found.pop(FLOOR).median > ABOVE_FLOOR:
            slow.append(where)
        behind += [f"{where} ({name})" for name, one in found.items() if one.median < 1]
    head = ["model", "prompt + completion", "N", "distinct", "this tool / floor"]
    head += [f"{name} / this tool" for name in LIBRARIES]
    notes = [
        verdict(f"at most {ABOVE_FLOOR} times the floor", slow),
        verdict("no slower than any library over the same parameters", behind),
    ]
    notes += [
        f"{name} skipped: {reason}."
        for name, one in LIBRARIES.items()
        if (reason := one.why_not())
    ]
    return "\n\n".join([table(head, rows), *notes])
