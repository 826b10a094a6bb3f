"""A block's inner products and its weighted gradient: of one pass, or of two."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import tool
from benchmarks.floor import plain_pass
from benchmarks.markdown import table
from benchmarks.pairs import Ratio, ratio, seconds, take_turns, verdict
from benchmarks.plan import Block
from benchmarks.scoring import prepare

FLOOR, PRODUCTS = "floor", "products"

# What is measured besides the products alone, and how far two ways may differ.
WAYS = ("one pass, whole", "one pass, sketch", "two passes")
TOLERANCE = 1e-4


def ways(scored: tool.Scored) -> dict[str, Callable[[], np.ndarray]]:
    """List the ways to a Gram matrix and a gradient, each giving the gradient."""
    return {
        "one pass, whole": partial(scored.one_pass, sketched=False),
        "one pass, sketch": partial(scored.one_pass, sketched=True),
        "two passes": scored.two_passes,
    }


def measure(block: Block, folder: Path, rounds: int) -> dict[str, Ratio]:
    """Take the ratios of one block to the floor, once the ways are seen to agree."""
    scored = prepare(block, folder)
    found = ways(scored)
    whole, other = found["one pass, whole"](), found["two passes"]()
    gap = np.linalg.norm(whole - other) / np.linalg.norm(other)
    if gap > TOLERANCE:
        raise RuntimeError(f"{block.case.model}: gradients differ by {gap:.1e}")
    raced: dict[str, Callable[[], object]] = {PRODUCTS: scored.products_alone, **found}
    plain_pass(scored.work)
    timed = {name: partial(seconds, way) for name, way in raced.items()}
    times = take_turns(
        timed | {FLOOR: partial(seconds, partial(plain_pass, scored.work))}, rounds
    )
    return {name: ratio(times[name], times[FLOOR]) for name in raced}


def report(blocks: tuple[Block, ...], folder: Path, rounds: int) -> str:
    """Measure the blocks one after the other and tabulate them."""
    rows, slower = [], []
    for block in blocks:
        found = measure(block, folder, rounds)
        row = [block.case.model, block.case.shape, block.completions, *found.values()]
        print(*row, sep=" | ", file=sys.stderr, flush=True)
        rows.append(row)
        if found["one pass, whole"].median > found["two passes"].median:
            slower.append(f"{block.case.model}, {block.case.shape}")
    head = ["model", "prompt + completion", "N", "products alone / floor"]
    head += [f"{way} / floor" for way in WAYS]
    return f"{table(head, rows)}\n\n{verdict('one pass takes less than two', slower)}"
