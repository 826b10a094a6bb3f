"""Inventory: every file of a run's folder, how it is read, and what it can be made from.

Reading, repairing, clearing, and the state of a result all follow from this table, so a
new file needs a row here and a call of `ResultsFolder.write`. While a run is
under way its folder also holds `shards/` and `.lock`. An absent file is no damage: tables
are committed without the arrays that they come from.

A reader takes an open file and raises any error where it holds what no run writes. Pandas
and the measurements' own types take long to import and are not needed to list results, so
they are imported where they are used.
"""

import io
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from mse_lab.console import COMMAND_PREFIX
from mse_lab.records.plain_text import parse_yaml
from mse_lab.results.checks import Checks
from mse_lab.results.files import open_intact

if TYPE_CHECKING:
    import pandas as pd

    from mse_lab.mse.pools import Pools
    from mse_lab.results.diagnostics import Diagnostics

# Columns that stay texts, even where they look like numbers or like missing ones.
TEXTS = ("probe", "estimator", "prompt", "category", "arm", "digest")


def read_whole_text(file: BinaryIO) -> str:
    """Read a text that ends in a whole line."""
    text = file.read().decode()
    if not text.endswith("\n"):
        raise ValueError("its last line is cut")
    return text


def read_json(file: BinaryIO, schema: Any) -> Any:
    """Read JSON of this schema."""
    try:
        return TypeAdapter(schema).validate_json(file.read())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(": ".join(map(str, [*first["loc"], first["msg"]]))) from None


def read_configuration(file: BinaryIO) -> dict[str, Any]:
    """Read `config.yaml` as it is written; `parse_probe` makes a probe of it."""
    values = parse_yaml(read_whole_text(file), "its text")
    if not isinstance(values, dict):
        raise TypeError("it holds no keys")
    return values


def read_npz(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Read all arrays, and thereby the checksum that is kept of each."""
    if not zipfile.is_zipfile(file):
        raise ValueError("no .npz file of arrays")  # NumPy would advise to unpickle it
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def read_diagnostics(file: BinaryIO) -> "Diagnostics":
    """Read `diagnostics.json`."""
    from mse_lab.results.diagnostics import Diagnostics

    return read_json(file, Diagnostics)


def read_table(file: BinaryIO, columns: Sequence[str], rows: int = 1) -> "pd.DataFrame":
    """Read a table of texts and numbers with these columns, and at least these rows."""
    import pandas as pd

    table = pd.read_csv(
        io.StringIO(read_whole_text(file)),
        dtype=dict.fromkeys(TEXTS, str),
        # A number may be missing; a text may be empty.
        keep_default_na=False,
        na_values=[""],
        index_col=False,
    ).fillna(dict.fromkeys(TEXTS, ""))
    missing = [column for column in columns if column not in table]
    if missing or len(table) < rows:
        raise ValueError(f"no column {missing[0]}" if missing else "no rows")
    table.drop(columns=[*TEXTS], errors="ignore").astype(float)
    return table


def read_completions(file: BinaryIO) -> "pd.DataFrame":
    """Read `completions.jsonl`: prompt, length, and whether it was cut."""
    import pandas as pd

    lines = pd.read_json(file, lines=True, dtype={"prompt": str})
    return lines[["prompt", "length", "truncated"]]


# What to do about a damaged file.
RESTORE = f"restore it, or measure again with {COMMAND_PREFIX} run PROBE --fresh"
REPAIR = f"{COMMAND_PREFIX} run PROBE makes it again from pools.npz"


def read_pools(file: BinaryIO) -> "Pools":
    """Read the arrays of P prompts; refuse those that do not fit."""
    from mse_lab.mse.pools import Pools

    return Pools.from_arrays(read_npz(file))


def _table(*columns: str, rows: int = 1) -> Callable[[BinaryIO], Any]:
    """Make a reader of a table that has these columns, and at least these rows."""
    return partial(read_table, columns=columns, rows=rows)


_POINT = ("probe", "estimator", "group_size")
_LAW = ("law", "law_low", "law_high")
_MSE = (*_POINT, "replicates", "mse", "mse_low", "mse_high", *_LAW)

# Marks a folder as a run's: what the run measures, by part. Written first, removed last.
MARK = "checkpoint.json"

# How each file that a run writes is read. The tables follow from `pools.npz`, and so do the
# raw errors; the pools are written last.
TABLES = {
    "mse.csv": _table(*_MSE),
    "laws.csv": _table(*_POINT, *_LAW, rows=0),
    "prompts.csv": _table("prompt", "category", "value"),
}
READERS: dict[str, Callable[[BinaryIO], Any]] = {
    **TABLES,
    "errors.npz": read_npz,
    "config.yaml": read_configuration,
    MARK: partial(read_json, schema=dict[str, str]),
    "environment.json": partial(read_json, schema=dict[str, Any]),
    "diagnostics.json": read_diagnostics,
    "completions.jsonl": read_completions,
    "checks.json": partial(read_json, schema=Checks),
    "pools.npz": read_pools,
}

FROM_POOLS = (*TABLES, "errors.npz")
# Those that answers are read from: `checks.json` keeps their digests.
SEALED = (*TABLES, "pools.npz")
# Without these a run is not finished.
NEEDED = (*FROM_POOLS, "checks.json", "pools.npz")

# What other commands make of a finished run; none is read back here.
MADE = (
    *("advice.json", "claims.csv", "report.html"),
    *("figure4.png", "figure4.pdf", "phase.png", "phase.pdf"),
    *("ladder.png", "ladder.pdf"),
)


def remedy(path: Path) -> str:
    """Say what to do about a file that is damaged, or not the run's."""
    repairable = path.name in FROM_POOLS and path.with_name("pools.npz").exists()
    return REPAIR if repairable else RESTORE


def read_intact(path: Path) -> Any:
    """Read a file of a result; refuse one that is damaged."""
    with open_intact(path, remedy(path)) as opened:
        return READERS[path.name](opened)
