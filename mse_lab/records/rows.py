"""Rows of a user's file, some thousands at a time: JSONL, CSV or Parquet.

A damaged line of JSON is left out and counted; a
stream that ends early is refused unless what there is was asked for. `Faults` keeps both.
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeAlias

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

    def lists(self) -> list[list[Any]]:
        """Give the values of all columns in Python's types."""
        return [*map(listed, self.columns.values())]


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


@dataclass
class _Lines:
    """Lines of JSON, read from a stream."""

    path: Path
    faults: Faults
    number: int = 0  # Lines read so far.

    def _raw(self, file: IO[bytes]) -> Iterator[bytes]:
        stream: Any = gzip.GzipFile(fileobj=file) if self.path.suffix == ".gz" else file
        try:
            for raw in stream:
                if not self.number:
                    refuse_utf16(self.path, raw)
                yield raw
        except EOFError:
            after = f"{self.path}, after line {self.number}"
            self.faults.end_early(after, "compressed data without an end")

    def _read(self, file: IO[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
        for raw in self._raw(file):
            self.number += 1
            if not raw.strip():
                continue
            values, where = read_object(raw), f"{self.path}, line {self.number}"
            if isinstance(values, dict):
                yield self.number, values
            elif raw.endswith(b"\n") or self.number == 1:
                self.faults.damaged.append(f"{where}: {values}")
            elif self.path.suffix != ".gz" or not self.faults.early:
                self.faults.end_early(where, "half a line")

    def batches(self, size: int) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
        """Read so many lines at a time: their numbers, and the records."""
        before = len(self.faults.damaged)  # Those of other files.
        with self.path.open("rb") as file:
            records = self._read(file)
            while batch := list(islice(records, size)):
                yield [number for number, _ in batch], [record for _, record in batch]
        count = len(spoilt := self.faults.damaged[before:])
        if count > max(1, MOST_DAMAGED * self.number) or count == self.number > 0:
            raise InputError(
                f"{spoilt[0]}; as {count} of {self.number} lines: a log has a JSON "
                "object a line, or is Parquet or CSV; export a table as one of these"
            )


def _columns_of(
    records: Sequence[Mapping[str, Any]], choose: Choose
) -> dict[str, ColumnValues]:
    names: dict[str, None] = {}
    last: Any = ()
    for record in records:
        if record.keys() != last:
            last = record.keys()
            names |= dict.fromkeys(last)
    wanted = choose(list(names))
    return {
        name: [record.get(name) for record in records] for name in names if name in wanted
    }


def _json_rows(path: Path, choose: Choose, faults: Faults, size: int) -> Iterator[Rows]:
    for numbers, records in _Lines(path, faults).batches(size):
        yield Rows(str(path), "line", numbers, _columns_of(records, choose))


def refuse_twice(names: Sequence[str], where: str) -> None:
    """Refuse columns of one name: one of them would be lost."""
    for name in {name for name in names if names.count(name) > 1}:
        raise InputError(f"{where}: two columns are named {shorten(name)}; rename one")


def _csv_rows(path: Path, choose: Choose, faults: Faults, size: int) -> Iterator[Rows]:
    csv.field_size_limit(2**31 - 1)
    with path.open("rb") as file:
        refuse_utf16(path, file.read(4))
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        names = next(rows, [])
        refuse_twice(names, str(path))
        wanted = choose(names)
        cells = ((rows.line_num, [cell or None for cell in row]) for row in rows if row)
        while batch := list(islice(cells, size)):
            for number, row in batch:
                if len(row) != len(names):
                    raise InputError(
                        f"{path}, line {number}: {len(row)} cells for {len(names)} "
                        "columns; repair it"
                    )
            columns = {
                name: [row[at] for _, row in batch]
                for at, name in enumerate(names)
                if name in wanted
            }
            yield Rows(str(path), "line", [number for number, _ in batch], columns)


def _parquet_rows(path: Path, choose: Choose, faults: Faults, size: int) -> Iterator[Rows]:
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


_READERS: dict[str, Callable[[Path, Choose, Faults, int], Iterator[Rows]]] = {
    ".csv": _csv_rows,
    ".parquet": _parquet_rows,
}


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
        yield from _READERS.get(suffix, _json_rows)(path, choose, faults, size)


def head_of(path: Path, faults: Faults) -> dict[str, pa.DataType]:
    """Give the columns of a file and their types: texts of a CSV, null of JSON."""
    if suffix_of(path) == ".parquet":
        with reading_rows(path):
            schema = pq.read_schema(path)
            return dict(zip(schema.names, schema.types, strict=True))
    rows = next(read_rows(path, lambda names: names, faults, HEAD), None)
    kind = pa.string() if suffix_of(path) == ".csv" else pa.null()
    return {} if rows is None else dict.fromkeys(rows.columns, kind)
