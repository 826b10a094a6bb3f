"""Readers of the files of a result; `inventory` says which file has which.

A reader takes an open file and raises any error where it holds what no run writes. Pandas
and the measurements' own types take long to import and are not needed to list results, so
they are imported where they are used.
"""

import io
import zipfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from mse_lab.probe.plain_text import parse_yaml

if TYPE_CHECKING:
    import pandas as pd

    from mse_lab.mse.corrections import CorrectionPools
    from mse_lab.mse.metric import MetricPools
    from mse_lab.mse.pools import Pools
    from mse_lab.results.diagnostics import Diagnostics

# Columns that stay texts, even where they look like numbers or like missing ones.
TEXTS = ("probe", "estimator", "prompt", "category", "arm", "digest")


def read_text(file: BinaryIO) -> str:
    """Read a text that ends in a whole line."""
    text = file.read().decode()
    if not text.endswith("\n"):
        raise ValueError("its last line is cut")
    return text


def read_json(file: BinaryIO, schema: Any) -> Any:
    """Read JSON of this schema."""
    return TypeAdapter(schema).validate_json(file.read())


def read_configuration(file: BinaryIO) -> dict[str, Any]:
    """Read `config.yaml` as it is written; `parse_probe` makes a probe of it."""
    values = parse_yaml(read_text(file), "its text")
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


def read_pools(
    file: BinaryIO, kind: Literal["pools", "metric", "corrections"]
) -> "Pools | MetricPools | CorrectionPools":
    """Read arrays of P prompts; each kind refuses those that do not fit together."""
    from mse_lab.mse.corrections import CorrectionPools
    from mse_lab.mse.metric import MetricPools
    from mse_lab.mse.pools import Pools

    kinds: Any = {"pools": Pools, "metric": MetricPools, "corrections": CorrectionPools}
    return kinds[kind].from_arrays(read_npz(file))


def read_diagnostics(file: BinaryIO) -> "Diagnostics | None":
    """Read `diagnostics.json`; None where another version wrote it."""
    from mse_lab.results.diagnostics import restore

    return restore(read_json(file, dict[str, Any]))


def read_table(file: BinaryIO, columns: Sequence[str], rows: int = 1) -> "pd.DataFrame":
    """Read a table of texts and numbers with these columns, and at least these rows."""
    import pandas as pd

    table = pd.read_csv(
        io.StringIO(read_text(file)),
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


def refuse_to_read(file: BinaryIO) -> Any:
    """Refuse a file that no command reads."""
    raise ValueError("no command reads it back")
