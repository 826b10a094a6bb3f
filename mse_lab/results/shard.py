"""Shards: the file of a measured prompt, or of its sample, which a resumed start reads.

A shard bears a seal: a digest of its content and of its origin, which is what was measured.
One that is damaged, changed, or of another run is not read.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mse_lab.mse.corrections import CorrectedPrompt
from mse_lab.mse.measurement import (
    CompletionSummary,
    PromptArrays,
    PromptChecks,
    PromptMeasurement,
    Provenance,
    SampledPrompt,
)
from mse_lab.mse.one_pool import PromptSample
from mse_lab.probe.identity import digest
from mse_lab.results.files import write_arrays
from mse_lab.results.integrity import open_intact
from mse_lab.results.readers import read_npz

# To be raised with every change of what a shard holds or means: shards of other versions
# are measured again.
VERSION = 10

REMEDY = "start again: its prompt is measured again"

# Field of a measurement -> its type; the names of all their fields differ.
PARTS: dict[str, type] = {
    "arrays": PromptArrays,
    "completions": CompletionSummary,
    "checks": PromptChecks,
    "provenance": Provenance,
}


def _seal(arrays: Mapping[str, NDArray[Any]], origin: str) -> str:
    held = [
        [name, one.dtype.str, one.shape, hashlib.sha256(one.tobytes()).hexdigest()]
        for name, one in sorted(arrays.items())
    ]
    return digest([VERSION, origin, held])


def _write_sealed(values: Mapping[str, Any], path: Path, origin: str) -> None:
    arrays = {k: np.asarray(v) for k, v in values.items()}
    marks = {"version": np.array(VERSION), "seal": np.array(_seal(arrays, origin))}
    # Vectors of random numbers, read once: compressing them gains nothing.
    write_arrays(path, arrays | marks, compressed=False)


@contextmanager
def _reading_sealed(path: Path, origin: str) -> Iterator[dict[str, Any]]:
    """Read what is sealed, to be taken apart in the body of a `with`."""
    with open_intact(path, REMEDY) as file:
        arrays = read_npz(file)
        if not np.array_equal(arrays.pop("version", 0), VERSION):
            raise ValueError("of another version")
        if arrays.pop("seal").item() != _seal(arrays, origin):
            raise ValueError("changed since, or of another run")
        yield arrays


def save_shard(prompt: PromptMeasurement, path: Path, origin: str) -> None:
    """Write a prompt's measurement, whole or not at all, with its origin in the seal."""
    values = {k: v for part in PARTS for k, v in vars(getattr(prompt, part)).items()}
    values["lines"] = np.frombuffer(prompt.completions.lines.encode(), np.uint8)
    _write_sealed(values, path, origin)


def load_shard(path: Path, origin: str) -> PromptMeasurement:
    """Read a prompt's measurement."""
    with _reading_sealed(path, origin) as arrays:
        arrays["lines"] = np.array(arrays["lines"].tobytes().decode())
        values = {k: v if v.ndim else v.item() for k, v in arrays.items()}
        parts = {
            part: kind(**{field.name: values[field.name] for field in fields(kind)})
            for part, kind in PARTS.items()
        }
        return PromptMeasurement(**parts)


def save_sample(prompt: SampledPrompt, path: Path, origin: str) -> None:
    """Write a prompt's sample, as `save_shard` does a measurement."""
    values = {k: v for k, v in vars(prompt).items() if k != "sample"}
    _write_sealed(vars(prompt.sample) | values, path, origin)


def load_sample(path: Path, origin: str) -> SampledPrompt:
    """Read a prompt's sample."""
    with _reading_sealed(path, origin) as arrays:
        values = {k: v if v.ndim else v.item() for k, v in arrays.items()}
        names = [field.name for field in fields(PromptSample)]
        sample = PromptSample(**{name: values.pop(name) for name in names})
        return SampledPrompt(sample, **values)


def save_corrected(prompt: CorrectedPrompt, path: Path, origin: str) -> None:
    """Write a prompt's corrections, as `save_shard` does a measurement."""
    _write_sealed(vars(prompt), path, origin)


def load_corrected(path: Path, origin: str) -> CorrectedPrompt:
    """Read a prompt's corrections."""
    with _reading_sealed(path, origin) as arrays:
        return CorrectedPrompt(**arrays)
