"""Write the arithmetic prompt sets: `python -m probes.prompts.make`.

`arithmetic-tiny.jsonl` (60 problems, one-digit operands) is for the tiny checkpoints,
`arithmetic.jsonl` (500 problems of medium difficulty) for real models,
`arithmetic-worked.jsonl` (40 problems of two or three steps) for the checkpoints that write
their working.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from probes.prompts.arithmetic import MEDIUM, TINY, Problem, draw_distinct, draw_problem
from probes.prompts.steps import draw_worked_problem

SETS: dict[str, tuple[int, Callable[[np.random.Generator], Problem]]] = {
    "arithmetic-tiny": (60, partial(draw_problem, TINY)),
    "arithmetic": (500, partial(draw_problem, MEDIUM)),
    "arithmetic-worked": (40, partial(draw_worked_problem, TINY)),
}


def lines_of_set(name: str) -> str:
    """Draw a set, from a seed of its own, and write it as JSON lines."""
    count, draw = SETS[name]
    problems = draw_distinct(count, draw, np.random.default_rng(list(SETS).index(name)))
    records = (
        {"id": f"{name}-{index:03d}", **problem._asdict()}
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
