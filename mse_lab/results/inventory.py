"""Inventory: every file of a run's folder, how it is read, and what it can be made from.

Reading, writing, repairing, clearing, the manifest, and the state of a result all follow
from this table, so a new file needs a row here and a call of `ResultsFolder.write`. While a
run is under way its folder also holds `shards/` and `.lock`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, Literal

from mse_lab.results import readers
from mse_lab.results.checks import Checks

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class File:
    """A file of a result."""

    # `pools`: it follows from pools.npz. `model`: only the run makes it. `result`: another
    # command makes it of a finished run.
    made_from: Literal["pools", "model", "result"]
    read: Callable[[BinaryIO], Any] = readers.refuse_to_read
    needed: bool = False  # Whether a finished run must have it.


def _table(*columns: str, rows: int = 1) -> Callable[[BinaryIO], Any]:
    """Make a reader of a table that has these columns, and at least these rows."""
    return partial(readers.read_table, columns=columns, rows=rows)


_NAMES = partial(readers.read_json, schema=dict[str, str])
_POINT = ("probe", "estimator", "group_size")
_LAW = ("law", "law_low", "law_high")
_MSE = (*_POINT, "replicates", "mse", "mse_low", "mse_high", *_LAW)

# What other commands make of a finished run.
MADE = (
    *("advice.json", "advice.csv", "claims.csv", "report.html"),
    *(
        f"{name}{suffix}"
        for name in ("advice", "figure4", "phase")
        for suffix in (".png", ".pdf")
    ),
)

FILES = {
    "mse.csv": File("pools", _table(*_MSE), needed=True),
    "laws.csv": File("pools", _table(*_POINT, *_LAW, rows=0)),
    "prompts.csv": File("pools", _table("prompt", "category", "value"), needed=True),
    "by_prompt.csv": File("pools", _table("prompt", "estimator", "group_size")),
    "errors.npz": File("pools", readers.read_npz, needed=True),
    "pools.npz": File("model", partial(readers.read_pools, kind="pools"), needed=True),
    "metric.npz": File("model", partial(readers.read_pools, kind="metric")),
    "corrections.npz": File("model", partial(readers.read_pools, kind="corrections")),
    "config.yaml": File("model", readers.read_configuration),
    "prompts.sha256": File("model", readers.read_text),
    "checkpoint.json": File("model", _NAMES),
    "environment.json": File("model", partial(readers.read_json, schema=dict[str, Any])),
    "diagnostics.json": File("model", readers.read_diagnostics),
    "completions.jsonl": File("model", readers.read_completions),
    # After the checks only the manifest is written.
    "checks.json": File("model", partial(readers.read_json, schema=Checks), needed=True),
    **dict.fromkeys(MADE, File("result")),
    MANIFEST: File("result", _NAMES),
}

# How a run begins these files, by which somebody's own are told apart.
BEGINNINGS = {
    "prompts.sha256": rb"[0-9a-f]{64}\n",
    "checkpoint.json": rb'\{\s*"model": "',
    MANIFEST: rb'\{\s*"[\w.-]+": "[0-9a-f]{64}"',
    "advice.json": rb'\{\s*"name": "[^"]*",\s*"prompts": \d',
}

FROM_POOLS, FROM_MODEL, FROM_RESULT = (
    tuple(name for name, file in FILES.items() if file.made_from == source)
    for source in ("pools", "model", "result")
)
NEEDED = tuple(name for name, file in FILES.items() if file.needed)

# Files that a repeated run gives again to the byte: all but the one with the date, the
# machine and the time. The manifest lists no other, so a repetition changes no checksum.
REPEATABLE = (
    *(name for name in FROM_POOLS + FROM_MODEL if name != "environment.json"),
    "advice.json",
)
