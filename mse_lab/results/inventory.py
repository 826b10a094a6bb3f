"""Inventory: every file of a run's folder, how it is read, and what it can be made from.

A reader takes an open file and raises any error where it holds what no run writes. Reading,
repairing, clearing, the manifest, and the state of a result all follow from this table.
While a run is under way its folder also holds `shards/` and `.lock`. Tables and arrays take
long to import and are not needed to list results, so `table_readers` is imported late.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, Literal

from pydantic import TypeAdapter

from mse_lab.probe.plain_text import parse_yaml
from mse_lab.results.checks import Checks
from mse_lab.results.files import read_text

Reader = Callable[[BinaryIO], Any]

MANIFEST = "manifest.json"


def read_json(file: BinaryIO, schema: Any) -> Any:
    """Read JSON of this schema."""
    return TypeAdapter(schema).validate_json(file.read())


def _configuration(file: BinaryIO) -> dict[str, Any]:
    values = parse_yaml(read_text(file), "its text")
    if not isinstance(values, dict):
        raise TypeError("it holds no keys")
    return values


def _late(reader: str, *options: Any) -> Reader:
    """Make a reader of one of `table_readers`, which takes long to import."""

    def read(file: BinaryIO) -> Any:
        from mse_lab.results import table_readers

        return getattr(table_readers, reader)(file, *options)

    return read


def table(*columns: str, rows: int = 1) -> Reader:
    """Make a reader of a table that has these columns, and at least these rows."""
    return _late("read_table", columns, rows)


def _written_only(file: BinaryIO) -> Any:
    raise ValueError("no command reads it back")


@dataclass(frozen=True)
class File:
    """A file of a result."""

    # `pools`, without a model; a `model`; or a finished `result`, by another command.
    made_from: Literal["pools", "model", "result"]
    read: Reader = _written_only  # How it is read.
    needed: bool = False  # Whether a finished run must have it.


_NAMES = partial(read_json, schema=dict[str, str])
_POINT = ("probe", "estimator", "group_size")
_LAW = ("law", "law_low", "law_high")
_MSE = (*_POINT, "replicates", "mse", "mse_low", "mse_high", *_LAW)

# What other commands make of a finished run.
MADE = (
    *("advice.json", "advice.csv", "claims.csv", "allocation.csv", "report.html"),
    *("advice.md", "claims.md"),  # of earlier versions
    *(
        f"{name}{suffix}"
        for name in ("advice", "figure4", "phase", "allocation", "regimes")
        for suffix in (".png", ".pdf")
    ),
)

FILES = {
    "mse.csv": File("pools", table(*_MSE), needed=True),
    "laws.csv": File("pools", table(*_POINT, *_LAW, rows=0)),
    "prompts.csv": File("pools", table("prompt", "category", "value"), needed=True),
    "by_prompt.csv": File("pools", table("prompt", "estimator", "group_size")),
    "errors.npz": File("pools", _late("read_npz"), needed=True),
    "pools.npz": File("model", _late("read_kept", "pools"), needed=True),
    "metric.npz": File("model", _late("read_kept", "metric")),
    "corrections.npz": File("model", _late("read_kept", "corrections")),
    "config.yaml": File("model", _configuration),
    "prompts.sha256": File("model", read_text),
    "checkpoint.json": File("model", _NAMES),
    "environment.json": File("model", partial(read_json, schema=dict[str, Any])),
    "diagnostics.json": File("model", _late("read_diagnostics")),
    "completions.jsonl": File("model", _late("read_completions")),
    # After the checks only the manifest is written.
    "checks.json": File("model", partial(read_json, schema=Checks), needed=True),
    **dict.fromkeys(MADE, File("result")),
    MANIFEST: File("result", _NAMES),
}

FROM_POOLS, FROM_MODEL, FROM_RESULT = (
    tuple(name for name, file in FILES.items() if file.made_from == source)
    for source in ("pools", "model", "result")
)
NEEDED = tuple(name for name, file in FILES.items() if file.needed)

# What the same run gives again, so that a repetition changes nothing in a repository: all
# but the date, the machine and the time that it took.
REPEATABLE = (
    *(name for name in FROM_POOLS + FROM_MODEL if name != "environment.json"),
    "advice.json",
)
