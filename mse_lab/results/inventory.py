"""Inventory: every file of a result, how it is read, and what it can be made from.

A reader takes an open file and raises, in whatever way, where it holds what no run writes.
All that is done with whole results follows from this table: reading, mending, clearing,
the manifest, and how a result stands. Tables and arrays are read by `table_readers`, which
takes long to import and is not needed to list results.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, Literal

from pydantic import TypeAdapter, ValidationError

from mse_lab.arrays import LARGEST
from mse_lab.probe.plain_text import parse_yaml
from mse_lab.results.checks import Checks

Reader = Callable[[BinaryIO], Any]

MANIFEST = "manifest.json"

# Numbers in environment.json, where there are any.
AMOUNTS = ("seconds", "peak_memory_bytes", "peak_device_memory_bytes")


def read_json(file: BinaryIO, schema: Any) -> Any:
    """Read JSON of this schema."""
    try:
        return TypeAdapter(schema).validate_json(file.read())
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(" ".join([*map(str, first["loc"]), first["msg"]])) from None


def _environment(file: BinaryIO) -> dict[str, Any]:
    values: dict[str, Any] = read_json(file, dict[str, Any])
    for name in AMOUNTS:
        value = values.get(name, 0)
        if value is not None and not abs(float(value)) <= LARGEST:
            raise ValueError(f"{name} is no such number")
    return values


def read_text(file: BinaryIO) -> str:
    """Read a text that ends in a whole line."""
    text = file.read().decode()
    if not text.endswith("\n"):
        raise ValueError("its last line is cut")
    return text


def _configuration(file: BinaryIO) -> dict[str, Any]:
    values = parse_yaml(read_text(file), "its text")
    if not isinstance(values, dict):
        raise TypeError("it holds no keys")
    return values


@dataclass(frozen=True)
class File:
    """A file of a result.

    Attributes:
        made_from: `pools`, without a model; a `model`; or a finished `result`, by another
            command, which no run reads back.
        read: How it is read, unless by `table_readers`.
        needed: Whether a finished run consists of it.
    """

    made_from: Literal["pools", "model", "result"]
    read: Reader | None = None
    needed: bool = False


_NAMES = partial(read_json, schema=dict[str, str])

FILES = {
    "mse.csv": File("pools", needed=True),
    "laws.csv": File("pools"),
    "prompts.csv": File("pools", needed=True),
    "by_prompt.csv": File("pools"),
    "errors.npz": File("pools", needed=True),
    "pools.npz": File("model", needed=True),
    "config.yaml": File("model", _configuration),
    "prompts.sha256": File("model", read_text),
    "checkpoint.json": File("model", _NAMES),
    "environment.json": File("model", _environment),
    "diagnostics.json": File("model"),
    "completions.jsonl": File("model"),
    # After the checks only the manifest is written.
    "checks.json": File("model", partial(read_json, schema=Checks), needed=True),
    **dict.fromkeys(("advice.json", "advice.csv", "advice.md"), File("result")),
    **dict.fromkeys(("claims.csv", "claims.md"), File("result")),
    **dict.fromkeys(("advice.png", "advice.pdf", "report.html"), File("result")),
    **dict.fromkeys(("figure4.png", "figure4.pdf"), File("result")),
    **dict.fromkeys(("figure4-scale-free.png", "figure4-scale-free.pdf"), File("result")),
    **dict.fromkeys(("phase.png", "phase.pdf"), File("result")),
    **dict.fromkeys(("allocation.csv", "allocation.png", "allocation.pdf"), File("result")),
    **dict.fromkeys(("regimes.png", "regimes.pdf"), File("result")),
    MANIFEST: File("result", _NAMES),
}

FROM_POOLS = tuple(name for name, file in FILES.items() if file.made_from == "pools")
FROM_MODEL = tuple(name for name, file in FILES.items() if file.made_from == "model")
FROM_RESULT = tuple(name for name, file in FILES.items() if file.made_from == "result")
NEEDED = tuple(name for name, file in FILES.items() if file.needed)

# What the same run gives again, so that a repetition changes nothing in a repository: all
# but when, where and in which time it was made.
REPEATABLE = (
    *(name for name in FROM_POOLS + FROM_MODEL if name != "environment.json"),
    "advice.json",
)
