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

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mse_lab.errors import InputError, in_short, shorten
from mse_lab.records.plain_text import read_object, reading, refuse_utf16

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_ONCE = 4096  # Rows in memory at once.
HEAD = 64  # Lines that tell the columns of a file.

# The largest share of a file's lines that may be damaged; one always may.
MOST_DAMAGED = 0.01

LINES, TABLES = (".jsonl", ".jsonl.gz"), (".csv", ".parquet")
ROW_SUFFIXES = (*LINES, *TABLES)
TABLE = ".table.json"  # Ends the name of a table of W&B or trackio, which is not read.
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth")

ColumnValues: TypeAlias = pa.Array | Sequence[Any]
# Which of the columns of a file are wanted.
Choose: TypeAlias = Callable[[Sequence[str]], Collection[str]]
_Record: TypeAlias = tuple[int, dict[str, Any]]  # The number of a line, and its values.


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


def suffix_of(path: Path) -> str:
    """Give the suffix that tells how a file is read, of `ROW_SUFFIXES` if it is one.

    >>> suffix_of(Path("a.b/c.jsonl.gz")), suffix_of(Path("x_1.table.json"))
    ('.jsonl.gz', '.json')
    """
    return next((one for one in ROW_SUFFIXES if path.name.endswith(one)), path.suffix)


def may_hold_rows(path: Path) -> bool:
    """Whether a file's name is that of rows, of a kind that is read or packed otherwise.

    >>> [may_hold_rows(Path(name)) for name in ("a.csv", "a.csv.bz2", "a.zip", "a.py")]
    [True, True, False, False]
    """
    packed = path.suffix in PACKED and path.with_suffix("").suffix in ROW_SUFFIXES
    return packed or path.name.endswith((*ROW_SUFFIXES, TABLE))


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


def _json_records(path: Path, faults: Faults) -> Iterator[_Record]:
    """Read lines of JSON; note those that are none, and refuse many."""
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


def refuse_twice(names: Sequence[str], where: str) -> None:
    """Refuse columns of one name: one of them would be lost."""
    for name in {name for name in names if names.count(name) > 1}:
        raise InputError(f"{where}: two columns are named {shorten(name)}; rename one")


def _csv_records(path: Path) -> Iterator[_Record]:
    csv.field_size_limit(2**31 - 1)
    with path.open("rb") as file:
        refuse_utf16(path, file.read(4))
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        names = next(rows, [])
        refuse_twice(names, str(path))
        for row in filter(None, rows):
            if len(row) != len(names):
                raise InputError(
                    f"{path}, line {rows.line_num}: {len(row)} cells for {len(names)} "
                    "columns; repair it"
                )
            cells = [cell or None for cell in row]
            yield rows.line_num, dict(zip(names, cells, strict=True))


def _in_columns(
    path: Path, records: Iterator[_Record], choose: Choose, size: int
) -> Iterator[Rows]:
    """Put so many records at a time into columns; what one lacks is None."""
    while batch := list(islice(records, size)):
        numbers, lines = zip(*batch, strict=True)
        names = list(dict.fromkeys(name for line in lines for name in line))
        wanted = choose(names)
        columns = {
            name: [line.get(name) for line in lines] for name in names if name in wanted
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
    names, where = [str(name) for name in frame.columns], "the data frame"
    refuse_twice(names, where)
    wanted = choose(names)
    for start in range(0, len(frame), ROWS_AT_ONCE):
        part = frame.iloc[start : start + ROWS_AT_ONCE]
        columns = {
            name: _array(part.iloc[:, at])
            for at, name in enumerate(names)
            if name in wanted
        }
        yield Rows(where, "row", range(start, start + len(part)), columns)


def _array(column: "pd.Series[Any]") -> ColumnValues:
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, UnicodeError, OverflowError):
        return [_plain(value) for value in column]


def _plain(value: Any) -> Any:
    """Convert NumPy's and pandas' values to Python's."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    import pandas as pd  # It takes long, and a list of probes needs none.

    return None if value is pd.NA or value is pd.NaT else value


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
    suffix = suffix_of(path)
    if suffix in PICKLES:
        raise InputError(
            f"{path}: a pickle, which runs code when it is read, is never loaded; save "
            "its rows as JSONL or Parquet"
        )
    if path.name.endswith(TABLE):
        raise InputError(
            f"{path}: a table of W&B; export its rows (columns, data) as Parquet or CSV, "
            "pd.DataFrame(table['data'], columns=table['columns']).to_parquet(...)"
        )
    if path.suffix in PACKED and suffix not in ROW_SUFFIXES:
        raise InputError(f"{path}: only .jsonl.gz is read as it is; unpack it")
    with reading_rows(path):
        if suffix == ".parquet":
            yield from _parquet_rows(path, choose, size)
        else:
            is_csv = suffix == ".csv"
            records = _csv_records(path) if is_csv else _json_records(path, faults)
            yield from _in_columns(path, records, choose, size)


def head_of(path: Path, faults: Faults) -> dict[str, pa.DataType]:
    """Give the columns of a file and their types: texts of a CSV, null of JSON."""
    if suffix_of(path) == ".parquet":
        with reading_rows(path):
            schema = pq.read_schema(path)
            return dict(zip(schema.names, schema.types, strict=True))
    rows = next(read_rows(path, lambda names: names, faults, HEAD), None)
    kind = pa.string() if suffix_of(path) == ".csv" else pa.null()
    return {} if rows is None else dict.fromkeys(rows.columns, kind)
