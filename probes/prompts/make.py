"""Write the arithmetic prompt sets: `python -m probes.prompts.make`.

`arithmetic-tiny.jsonl` (60 problems, one-digit operands) is for the tiny checkpoints,
`arithmetic.jsonl` (500 problems of medium difficulty) for real models,
`arithmetic-worked.jsonl` (40 problems of two or three steps) for the checkpoints that write
their working, `arithmetic-sums.jsonl` (200 sums and differences up to 12) for a language
model of 135 million parameters, `arithmetic-sums-measured.jsonl` their first half. The 60
problems of `arithmetic-tiny-held-out.jsonl` come next in the stream of the first, then the
400 of `arithmetic-tiny-train.jsonl` and the 200 of `arithmetic-tiny-unseen.jsonl`.
`short-answers.jsonl` was written by hand.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from probes.prompts.arithmetic import (
    WORKED,
    Problem,
    draw_distinct,
    draw_problem,
    draw_sum,
)
from probes.prompts.steps import MEDIUM, TINY


class Set(NamedTuple):
    """Which problems of a stream make a prompt set: those after the first so many."""

    seed: int
    after: int
    count: int
    draw: Callable[[np.random.Generator], Problem]
    ids: str = ""  # The name in its ids, where that is another set's.


SETS = {
    "arithmetic-tiny": Set(0, 0, 60, partial(draw_problem, TINY)),
    "arithmetic": Set(1, 0, 500, partial(draw_problem, MEDIUM)),
    "arithmetic-worked": Set(2, 0, 40, partial(draw_problem, TINY, categories=WORKED)),
    "arithmetic-sums": Set(3, 0, 200, draw_sum),
    "arithmetic-sums-measured": Set(3, 0, 100, draw_sum, "arithmetic-sums"),
    "arithmetic-tiny-held-out": Set(0, 60, 60, partial(draw_problem, TINY)),
    "arithmetic-tiny-train": Set(0, 120, 400, partial(draw_problem, TINY)),
    "arithmetic-tiny-unseen": Set(0, 520, 200, partial(draw_problem, TINY)),
}


def lines_of_set(name: str) -> str:
    """Draw a set from its seed, and write it as JSON lines."""
    seed, after, count, draw, ids = SETS[name]
    problems = draw_distinct(after + count, draw, np.random.default_rng(seed))[after:]
    records = (
        {"id": f"{ids or name}-{index:03d}", **problem._asdict()}
        for index, problem in enumerate(problems)
    )
    return "".join(json.dumps(record) + "\n" for record in records)


def main() -> None:
    """Write each set beside this script."""
    for name in SETS:
        path = Path(__file__).with_name(f"{name}.jsonl")
        path.write_text(lines_of_set(name), encoding="utf-8")


if __name__ == "__main__":
    main()
