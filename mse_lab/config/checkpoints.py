"""The checkpoints that a trainer saved, in the order of their steps.

Only folders are examined, so a wrong name is refused before torch is loaded.
"""

import re
from collections.abc import Sequence
from glob import glob
from pathlib import Path

from mse_lab.config.schema import Probe
from mse_lab.errors import InputError

# The files that a folder of a whole model, or of a LoRA adapter, has in transformers' form.
MODEL, ADAPTER = "config.json", "adapter_config.json"


def _step(path: Path) -> int:
    numbers = re.findall(r"\d+", path.name)
    if not numbers:
        what = "no step in its name; give folders such as checkpoint-10"
    elif not ((path / MODEL).is_file() or (path / ADAPTER).is_file()):
        what = f"neither {MODEL} nor {ADAPTER} in it; give what a trainer saved"
    else:
        return int(numbers[-1])
    raise InputError(f"--checkpoints {path}: {what}")


def find_checkpoints(patterns: Sequence[str]) -> dict[int, Path]:
    """Find folders by name or pattern; the step is the last number in a folder's name."""
    by_step: dict[int, Path] = {}
    for pattern in patterns:
        # A folder's name may look like a pattern.
        names = glob(pattern) or [pattern]  # noqa: PTH207
        folders = [path for path in map(Path, names) if path.is_dir()]
        if not folders:
            raise InputError(
                f"--checkpoints {pattern}: no such folder; give what a trainer saved, "
                "such as 'out/checkpoint-*'"
            )
        for path in folders:
            if by_step.setdefault(step := _step(path), path) != path:
                raise InputError(
                    f"--checkpoints: {by_step[step]} and {path} are both of step {step}; "
                    "give one of them"
                )
    return dict(sorted(by_step.items()))


def at_checkpoint(probe: Probe, path: Path) -> Probe:
    """Give the probe of a checkpoint: the same but for the model, or for its adapter."""
    changes = {"path": str(path), "revision": None}
    if (path / ADAPTER).is_file():
        changes = {"adapter": str(path), "adapter_revision": None}
    return probe.model_copy(update={"model": probe.model.model_copy(update=changes)})
