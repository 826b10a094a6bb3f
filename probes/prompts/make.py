"""Write the arithmetic prompt sets: `python probes/prompts/make.py`.

`arithmetic-tiny.jsonl` (60 problems, one-digit operands) is for the tiny checkpoints,
`arithmetic.jsonl` (500 problems of medium difficulty) for real models. The 60 problems of
`arithmetic-tiny-held-out.jsonl` come next in the stream of the first.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from arithmetic import MEDIUM, TINY, Ranges, draw_distinct


class Set(NamedTuple):
    """Which problems of a stream make a prompt set: those after the first so many."""

    seed: int
    after: int
    count: int
    ranges: Ranges


SETS = {
    "arithmetic-tiny": Set(0, 0, 60, TINY),
    "arithmetic": Set(1, 0, 500, MEDIUM),
    "arithmetic-tiny-held-out": Set(0, 60, 60, TINY),
}


def main() -> None:
    """Draw each set from its seed and write it beside this script."""
    for name, (seed, after, count, ranges) in SETS.items():
        rng = np.random.default_rng(seed)
        problems = draw_distinct(after + count, ranges, rng)[after:]
        lines = [
            json.dumps({"id": f"{name}-{index:03d}", **problem._asdict()})
            for index, problem in enumerate(problems)
        ]
        path = Path(__file__).with_name(f"{name}.jsonl")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
