"""The checkpoints that a trainer saved, in the order of their steps.

Only folders are examined, so a wrong name is refused before torch is loaded.
"""

import re
from collections.abc import Sequence
from glob import glob
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from mse_lab.errors import InputError


class Checkpoint(NamedTuple):
    """A folder that a trainer saved after `step` steps; None for the probe's model."""

    step: int
    path: Path | None


START = Checkpoint(0, None)

LARGEST_STEP = 10**15  # Tables take no integer of more than 64 bits.


def find_checkpoints(
    patterns: Sequence[str], *, from_start: bool = False
) -> list[Checkpoint]:
    """Find checkpoints by folder names or patterns of them, in the order of their steps.

    The step is the last number in a folder's name. With `from_start` the probe's model is
    step 0.
    """
    paths: dict[Path, None] = {}
    for pattern in patterns:
        # An existing folder's name may look like a pattern.
        names = [pattern] if Path(pattern).is_dir() else glob(pattern)  # noqa: PTH207
        folders = [path for path in map(Path, names) if path.is_dir()]
        if not folders:
            raise InputError(
                f"--checkpoints {pattern}: no such folder; give what a trainer saved, "
                "such as 'out/checkpoint-*'"
            )
        paths |= dict.fromkeys(folders)
    checkpoints = [START] if from_start else []
    for path in paths:
        numbers = re.findall(r"\d+", path.name)
        if not numbers or (step := int(numbers[-1])) > LARGEST_STEP:
            raise InputError(
                f"--checkpoints {path}: no step in its name; give folders such as "
                "checkpoint-10"
            )
        checkpoints.append(Checkpoint(step, path))
    checkpoints.sort(key=lambda checkpoint: checkpoint.step)
    for first, second in pairwise(checkpoints):
        if first.step == second.step:
            raise InputError(
                f"--checkpoints: {first.path or 'the start'} and {second.path} are both of "
                f"step {first.step}; give one of them"
            )
    return checkpoints
