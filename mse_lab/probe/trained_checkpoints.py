"""The checkpoints that a trainer saved, in the order of their steps.

Folders are all that is looked at here, so that a wrong name is told before torch is loaded.
"""

import re
from collections.abc import Sequence
from glob import glob
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from mse_lab.errors import InputError


class Checkpoint(NamedTuple):
    """A folder that a trainer saved after so many steps; None for the probe's own model."""

    step: int
    path: Path | None


START = Checkpoint(0, None)

# Digits of a step: tables hold no more.
MOST_DIGITS = 18


def _read_step(path: Path) -> Checkpoint:
    numbers = re.findall(r"\d+", path.name)
    if numbers and len(numbers[-1]) > MOST_DIGITS:
        raise InputError(
            f"--checkpoints {path}: a step of more than {MOST_DIGITS} digits; rename it"
        )
    if not numbers:
        raise InputError(
            f"--checkpoints {path}: no step in its name; give folders such as checkpoint-10"
        )
    return Checkpoint(int(numbers[-1]), path)


def find_checkpoints(
    patterns: Sequence[str], *, from_start: bool = False
) -> list[Checkpoint]:
    """Find checkpoints by folder names or patterns of them, in the order of their steps.

    The step is the last number in a folder's name. `from_start` puts the probe's own model
    before them, as step 0.

    Raises:
        InputError: A pattern matches no folder, or two are of one step.
    """
    paths: dict[Path, None] = {}
    for pattern in patterns:
        # A name is taken as it is, also where it looks like a pattern.
        found = [pattern] if Path(pattern).is_dir() else glob(pattern)  # noqa: PTH207
        folders = [path for path in map(Path, found) if path.is_dir()]
        if not folders:
            raise InputError(
                f"--checkpoints {pattern}: no such folder; give what a trainer saved, "
                "such as 'out/checkpoint-*'"
            )
        paths |= dict.fromkeys(folders)
    checkpoints = [START] * from_start + [_read_step(path) for path in paths]
    checkpoints.sort(key=lambda one: one.step)
    for one, other in pairwise(checkpoints):
        if one.step == other.step:
            first, second = (str(two.path or "the start") for two in (one, other))
            raise InputError(
                f"--checkpoints: {first} and {second} are both of step {one.step}; "
                "give one of them"
            )
    return checkpoints
