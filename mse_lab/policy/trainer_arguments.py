"""The arguments that TRL's trainer saved beside its checkpoints, without running any code.

`training_args.bin` is a pickle of TRL's and transformers' classes. It is read by torch's
loader for weights alone, which builds nothing but tensors and plain values; inert objects
stand for those classes, so that none of their code runs.
"""

from pathlib import Path
from typing import Any

import torch

from mse_lab.errors import InputError, in_short

FILE = "training_args.bin"


class _Inert:
    """Holds what a pickle says of an object."""

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        vars(self).update(state if isinstance(state, dict) else {})


def _find(folder: Path) -> Path:
    files = [folder / FILE, *folder.glob(f"checkpoint-*/{FILE}")]
    existing = [path for path in files if path.is_file()]
    if not existing:
        raise InputError(
            f"--from {folder}: no {FILE} in it or its checkpoints, which TRL saves with "
            "each; give another folder, or leave it out"
        )
    return max(existing, key=lambda path: path.stat().st_mtime)


def read_arguments(folder: Path) -> dict[str, Any]:
    """Read the plain values of the newest arguments in a trainer's folder."""
    path = _find(folder)
    try:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
        inert: list[Any] = [(type("Inert", (_Inert,), {}), name) for name in names]
        with torch.serialization.safe_globals(inert):
            saved = vars(torch.load(path, weights_only=True))
    except Exception as error:  # A damaged pickle fails in any way.
        raise InputError(f"{path}: cannot be read: {in_short(error)}") from None
    plain = (bool, int, float, str, list, type(None))
    return {name: value for name, value in saved.items() if isinstance(value, plain)}
