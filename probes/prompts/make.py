"""Write the two arithmetic prompt sets: `python probes/prompts/make.py`.

`arithmetic-tiny.jsonl` (60 problems, one-digit operands) is for the tiny checkpoints,
`arithmetic.jsonl` (500 problems of medium difficulty) for real models.
"""

import json
from pathlib import Path

import numpy as np

from arithmetic import MEDIUM, TINY, Ranges, draw_distinct

SETS: dict[str, tuple[int, Ranges]] = {
    "arithmetic-tiny": (60, TINY),
    "arithmetic": (500, MEDIUM),
}


def main() -> None:
    """Draw each set from a seed of its own and write it beside this script."""
    for seed, (name, (count, ranges)) in enumerate(SETS.items()):
        problems = draw_distinct(count, ranges, np.random.default_rng(seed))
        lines = [
            json.dumps({"id": f"{name}-{index:03d}", **problem._asdict()})
            for index, problem in enumerate(problems)
        ]
        path = Path(__file__).with_name(f"{name}.jsonl")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
