"""Shards: the file of a measured prompt, which a resumed run reads."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from mse_lab.errors import InputError, in_short
from mse_lab.mse.measurement import (
    CompletionSummary,
    PromptArrays,
    PromptChecks,
    PromptMeasurement,
    Provenance,
)
from mse_lab.results.files import write_arrays

# To be raised with every change of what a shard holds or means: shards of other versions
# are measured again.
VERSION = 7

REMEDY = "start again: its prompt is measured again"

# Field of a measurement -> its type; the names of all their fields differ.
PARTS: dict[str, type] = {
    "arrays": PromptArrays,
    "completions": CompletionSummary,
    "checks": PromptChecks,
    "provenance": Provenance,
}


def save_shard(prompt: PromptMeasurement, path: Path) -> None:
    """Write a prompt's measurement, whole or not at all.

    Raises:
        InputError: The folder cannot be written.
    """
    values = {k: v for part in PARTS for k, v in vars(getattr(prompt, part)).items()}
    values["lines"] = np.frombuffer(prompt.completions.lines.encode(), np.uint8)
    values["version"] = VERSION
    # Vectors of random numbers, read once: compressing them gains nothing.
    write_arrays(path, {k: np.asarray(v) for k, v in values.items()}, compressed=False)


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        arrays = dict(archive)  # reads each array and verifies its checksum
    if not np.array_equal(arrays.pop("version", 0), VERSION):
        raise ValueError("of another version")
    arrays["lines"] = np.array(arrays["lines"].tobytes().decode())
    return {k: v if v.ndim else v.item() for k, v in arrays.items()}


def load_shard(path: Path) -> PromptMeasurement:
    """Read a prompt's measurement.

    Raises:
        InputError: It is missing, damaged, or of another version.
    """
    try:
        values = _read(path)
        parts = {
            part: kind(**{field.name: values[field.name] for field in fields(kind)})
            for part, kind in PARTS.items()
        }
        return PromptMeasurement(**parts)
    # Parsers of archives fail in whatever way a damaged one makes them.
    except Exception as error:
        raise InputError(f"{path}: damaged ({in_short(error)}); {REMEDY}") from None
