"""Sources: the rows of a prompt set, from a file or a data set of the Hub.

JSONL is read here, CSV and Parquet as logs are (`rows.py`), a folder by the library
datasets. A data set of the Hub is the snapshot of its repository in the Hub's cache, where
`hf download` puts it too, and is read as a local folder: the library itself would take any
revision that it has seen before.
"""

import json
import os
import re
from collections.abc import Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from mse_lab.config.schema import Prompts
from mse_lab.data.foreign_code import guard, load_extra
from mse_lab.errors import InputError
from mse_lab.records.plain_text import (
    STARTS,
    TABLES,
    is_hub_name,
    local_path,
    parse_json,
    read_text,
)
from mse_lab.records.rows import ColumnValues, Faults, listed, read_rows


class Row(NamedTuple):
    """A row of a source."""

    where: str  # Names it in messages.
    number: int  # Counted from 0.
    values: dict[str, Any]  # Its fields.


def _lines(path: Path) -> Iterator[Row]:
    what = {".tsv": "a table with tabs", ".gz": "packed"}.get(path.suffix.lower(), "")
    text = "" if what else read_text(path)
    if what or text.lstrip().startswith("["):
        what = what or "a JSON array"
        raise InputError(f"{path}: {what}; give one JSON object a line, CSV or Parquet")
    # Not splitlines: a text may contain U+2028.
    lines = enumerate(text.split("\n"), start=1)
    filled = ((at, line) for at, line in lines if line.strip())
    for number, (at, line) in enumerate(filled):
        where = f"{path}, line {at}"
        yield Row(where, number, parse_json(line, where))


def _row(where: str, number: int, values: dict[str, Any]) -> Row:
    """Make a row of a table's; its values are those of JSON."""

    def plain(value: Any) -> str:
        if isinstance(value, date | time | timedelta | Decimal):
            return str(value)
        raise InputError(
            f"{where}: has a value other than texts and numbers ({type(value).__name__}); "
            "save it without that column"
        )

    return Row(where, number, parse_json(json.dumps(values, default=plain), where))


def _cells(values: ColumnValues) -> list[Any]:
    """Give a column's values, of few digits as they are written: 3.14, not of 64 bits."""
    cells = listed(values)
    if not isinstance(values, pa.Array) or values.type not in (pa.float16(), pa.float32()):
        return cells
    kind = values.type.to_pandas_dtype()
    return [None if one is None else float(str(kind(one))) for one in cells]


def _table(path: Path) -> Iterator[Row]:
    """Read a CSV, whose cells are texts, or a Parquet file."""
    numbers = count()
    for rows in read_rows(path, lambda names: names, Faults()):
        names, cells = [*rows.columns], map(_cells, rows.columns.values())
        if len(names) == 1 and (cut := re.search("[;\t]", names[0])):
            raise InputError(f"{path}: its columns are separated by {cut[0]!r}, not commas")
        for at, row in enumerate(zip(*cells, strict=True)):
            yield _row(rows.place(at), next(numbers), dict(zip(names, row, strict=True)))


def _folder(path: Path, prompts: Prompts) -> Iterator[Row]:
    """Read a folder by the library datasets, the split `test` by default."""
    datasets = load_extra("datasets", "data", f"prompts.source = {prompts.source}")
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity_error()
    split = prompts.split or "test"
    try:
        folder = os.path.normpath(path.absolute())
        rows = datasets.load_dataset(folder, prompts.subset, split=split)
    except (ValueError, OSError, datasets.exceptions.DatasetsError) as error:
        # The first sentences name the splits and subsets; the rest repeats the folder.
        reason = str(error).partition("Example of usage")[0].strip()
        raise InputError(
            f"prompts.source = {prompts.source}: cannot be read with split {split}, subset "
            f"{prompts.subset}: {reason}; see prompts.split and prompts.subset"
        ) from None
    for number, values in enumerate(rows):
        yield _row(f"{prompts.source}, row {number}", number, values)


def _guarded(rows: Iterator[Row], what: str) -> Iterator[Row]:
    """Turn any error of a library into one line."""
    while True:
        with guard(f"{what}: cannot be read"):
            row = next(rows, None)
        if row is None:
            return
        yield row


def _refuse_keys(prompts: Prompts, keys: tuple[str, ...], what: str) -> None:
    """Refuse keys that would be ignored."""
    for key in keys:
        if (value := getattr(prompts, key)) is not None:
            raise InputError(
                f"prompts.{key} = {value}: {prompts.source} is {what}; remove the key"
            )


def open_rows(prompts: Prompts, root: Path) -> tuple[str, Iterator[Row]]:
    """Open a source: its short name, for ids, and its rows, which are read lazily."""
    path, what = local_path(prompts.source, root), f"prompts.source = {prompts.source}"
    if path is not None and path.is_file():
        _refuse_keys(prompts, ("subset", "split", "revision"), "one local file")
        rows = _guarded(_table(path), what) if path.suffix in TABLES else _lines(path)
        return path.stem, rows
    if path is not None:
        _refuse_keys(prompts, ("revision",), "a local folder")
    elif is_hub_name(prompts.source):
        # Before the download: a missing library is refused at once.
        load_extra("datasets", "data", what)
        from mse_lab.data.location import Location  # Late: few sources need it.

        key = "prompts.source"
        path = Location(key, prompts.source, prompts.revision, "dataset").fetch()
    else:
        raise InputError(
            f"{what}: no such file; give a JSONL, or a Hub data set owner/name ({STARTS})"
        )
    return Path(prompts.source).name, _guarded(_folder(path, prompts), what)
