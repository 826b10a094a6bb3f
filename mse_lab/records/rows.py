"""Rows of a user's file, some thousands at a time: JSONL, CSV or Parquet.

A damaged line of JSON is left out and counted; a stream that ends early is refused unless
what there is was asked for. `Faults` keeps both.
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from mse_lab.errors import InputError, in_short, shorten
from mse_lab.records.plain_text import TABLES, read_object, reading, refuse_utf16

if TYPE_CHECKING:
    import pandas as pd

FRAME = "the data frame"  # Names one in messages.
ROWS_AT_ONCE = 4096  # Rows in memory at once.
HEAD = 64  # Lines that tell the columns of a file.

# The largest share of a file's lines that may be damaged; one always may.
MOST_DAMAGED = 0.01

LINES = (".jsonl", ".jsonl.gz")
ROW_SUFFIXES = (*LINES, *TABLES)
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
# What else is not read, and why.
_UNREAD = {
    (".pkl", ".pickle", ".joblib", ".pt", ".pth"): "a pickle, which runs code when it is "
    "read, is never loaded; save its rows as JSONL or Parquet",
    (".table.json",): "a table of W&B; export its rows as Parquet or CSV",
    _PACKED: "only .jsonl.gz is read as it is; unpack it",
}
# What may hold rows, also where it is packed or a table that is not read.
MAY_HOLD_ROWS = (
    *(*ROW_SUFFIXES, ".table.json"),
    *(rows + packed for rows in ROW_SUFFIXES for packed in _PACKED),
)

ColumnValues: TypeAlias = pa.Array | Sequence[Any]
# Which of the columns of a file are wanted.
Choose: TypeAlias = Callable[[Sequence[str]], Collection[str]]


def listed(values: ColumnValues) -> list[Any]:
    """Give the values of a column in Python's types."""
    return values.to_pylist() if isinstance(values, pa.Array) else list(values)


class Rows(NamedTuple):
    """Some rows of a file."""

    path: str
    unit: str  # What is counted: lines or rows.
    numbers: Sequence[int]  # The number of each.
    columns: Mapping[str, ColumnValues]  # The values of each wanted column.

    def place(self, index: int) -> str:
        """Name a row in a message."""
        return f"{self.path}, {self.unit} {self.numbers[index]}"


@dataclass
class Faults:
    """What could not be read of files."""

    partial: bool = False  # Whether a stream that ends early is read up to there.
    damaged: list[str] = field(default_factory=list)  # Lines that are no JSON object.
    early: list[str] = field(default_factory=list)  # Where streams end.

    def end_early(self, where: str, why: str) -> None:
        """Note that a stream ends early, or refuse it."""
        if not self.partial:
            raise InputError(
                f"{where}: {why}: the file ends early; give it whole, or read it up to "
                "there by --partial (partial=True)"
            )
        self.early.append(where)


def _raw_lines(path: Path, faults: Faults) -> Iterator[tuple[int, bytes]]:
    """Read lines, each with its number; note a compressed stream without an end."""
    number = 0
    with path.open("rb") as file:
        stream: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        try:
            for number, raw in enumerate(stream, start=1):
                yield number, raw
        except EOFError:
            after = f"{path}, after line {number}"
            faults.end_early(after, "compressed data without an end")


def _json_records(path: Path, faults: Faults) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read lines of JSON with their numbers; note those that are none, and refuse many."""
    before, number = len(faults.damaged), 0  # Those of other files.
    for number, raw in _raw_lines(path, faults):
        if number == 1:
            refuse_utf16(path, raw)
        if not raw.strip():
            continue
        values, where = read_object(raw), f"{path}, line {number}"
        if isinstance(values, dict):
            yield number, values
        elif raw.endswith(b"\n") or number == 1:
            faults.damaged.append(f"{where}: {values}")
        elif path.suffix != ".gz" or not faults.early:
            faults.end_early(where, "half a line")
    count = len(spoilt := faults.damaged[before:])
    if count > max(1, MOST_DAMAGED * number) or count == number > 0:
        raise InputError(
            f"{spoilt[0]}; as {count} of {number} lines: a log has a JSON object a line, "
            "or is Parquet or CSV; export a table as one of these"
        )


def _json_rows(path: Path, choose: Choose, faults: Faults, size: int) -> Iterator[Rows]:
    """Put so many lines at a time into columns; what one lacks is None."""
    records = _json_records(path, faults)
    while batch := list(islice(records, size)):
        numbers, lines = zip(*batch, strict=True)
        names = list(dict.fromkeys(name for line in lines for name in line))
        wanted = choose(names)
        columns = {
            name: [line.get(name) for line in lines] for name in names if name in wanted
        }
        yield Rows(str(path), "line", numbers, columns)


def refuse_twice(names: Sequence[str], where: str) -> None:
    """Refuse columns of one name: one of them would be lost."""
    for name in {name for name in names if names.count(name) > 1}:
        raise InputError(f"{where}: two columns are named {shorten(name)}; rename one")


def _csv_rows(path: Path, choose: Choose, size: int) -> Iterator[Rows]:
    csv.field_size_limit(2**31 - 1)
    with path.open("rb") as file:
        refuse_utf16(path, file.read(4))
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        names = next(rows, [])
        refuse_twice(names, str(path))
        wanted = choose(names)
        numbered = ((rows.line_num, row) for row in rows if row)
        while batch := list(islice(numbered, size)):
            numbers, cells = zip(*batch, strict=True)
            counts = [*map(len, cells)]
            if counts.count(len(names)) < len(counts):
                at = next(n for n, count in enumerate(counts) if count != len(names))
                raise InputError(
                    f"{path}, line {numbers[at]}: {counts[at]} cells for {len(names)} "
                    "columns; repair it"
                )
            columns = {
                name: [cell or None for cell in column]
                for name, column in zip(names, zip(*cells, strict=True), strict=True)
                if name in wanted
            }
            yield Rows(str(path), "line", numbers, columns)


def _parquet_rows(path: Path, choose: Choose, size: int) -> Iterator[Rows]:
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        refuse_twice(names, str(path))
        wanted, start = choose(names), 0
        # To Parquet a dot in a name is a nested column.
        kept = None if any("." in name for name in names) else list(wanted)
        for batch in file.iter_batches(batch_size=size, columns=kept):
            numbers = range(start, start + len(batch))
            start += len(batch)
            taken = [name for name in batch.schema.names if name in wanted]
            columns = {name: _dates_as_texts(batch[name]) for name in taken}
            yield Rows(str(path), "row", numbers, columns)


def _dates_as_texts(array: pa.Array) -> pa.Array:
    """Write dates as texts: Python has not all of Parquet's."""
    kinds = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_time)
    return array.cast(pa.string()) if any(kind(array.type) for kind in kinds) else array


def frame_rows(frame: "pd.DataFrame", choose: Choose) -> Iterator[Rows]:
    """Read a data frame."""
    names = [str(name) for name in frame.columns]
    refuse_twice(names, FRAME)
    wanted = choose(names)
    kept = frame.set_axis(names, axis=1)[[name for name in names if name in wanted]]
    table = pa.Table.from_pandas(kept, preserve_index=False)
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    yield Rows(FRAME, "row", range(len(frame)), columns)


@contextmanager
def reading_rows(path: Path | str) -> Iterator[None]:
    """Turn any error of reading rows, and of their values, into one line."""
    try:
        with reading(path):
            yield
    except (InputError, MemoryError):
        raise
    except (
        pa.ArrowException,
        csv.Error,
        zlib.error,
        ValueError,
        LookupError,
        TypeError,
    ) as error:
        raise InputError(f"{path}: cannot be read: {in_short(error)}") from None


def read_rows(
    path: Path, choose: Choose, faults: Faults, size: int = ROWS_AT_ONCE
) -> Iterator[Rows]:
    """Read the columns of a file that are chosen by their names, `size` rows at a time."""
    for suffixes, why in _UNREAD.items():
        if path.name.endswith(suffixes) and not path.name.endswith(ROW_SUFFIXES):
            raise InputError(f"{path}: {why}")
    with reading_rows(path):
        if path.suffix == ".parquet":
            yield from _parquet_rows(path, choose, size)
        elif path.suffix == ".csv":
            yield from _csv_rows(path, choose, size)
        else:
            yield from _json_rows(path, choose, faults, size)


def head_of(path: Path, *, whole: bool = False) -> dict[str, pa.DataType]:
    """Give the columns of a file and their types: texts of a CSV, null of JSON.

    Those of JSON are what its first lines have, or any of the `whole`.
    """
    if path.suffix == ".parquet":
        with reading_rows(path):
            schema = pq.read_schema(path)
            return dict(zip(schema.names, schema.types, strict=True))
    rows = read_rows(path, lambda names: names, Faults(True), HEAD)
    kind = pa.string() if path.suffix == ".csv" else pa.null()
    some = rows if whole and path.name.endswith(LINES) else islice(rows, 1)
    return {name: kind for one in some for name in one.columns}
