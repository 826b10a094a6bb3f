"""Read a log: all completions of a folder, files, or a data frame, as columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from mse_lab.errors import InputError
from mse_lab.logs.collect import Collector
from mse_lab.logs.find_logs import LeftOut, LogSource, find_logs
from mse_lab.logs.forms import Form, GivenColumns, recognise, refuse_unseen
from mse_lab.records.records import Records, read_records
from mse_lab.records.rows import Faults, Rows, frame_rows, read_rows


@dataclass(frozen=True)
class Log:
    """A log: what was read, and its completions."""

    source: LogSource
    completions: pd.DataFrame  # Their numbers, a row each (`collect.py`).
    prompts: Sequence[str]  # A label of each prompt.
    identities: frozenset[str]  # Which of a record's `IDENTITIES` it has.
    lost: int = 0  # Number of lines that are no JSON.
    cut_off: bool = False  # Whether a file ends early.


def _collect(
    rows: Iterator[Rows], form: Form, collector: Collector, file: int
) -> Iterator[str]:
    """Collect completions of a file; give the names of a record that are found in it."""
    for some in rows:
        records = _fill_in(read_records(some, form.columns), form)
        collector.add(records, file, dict(_other_ids(some, form, records)))
        for name, array in records.columns.items():
            if array.null_count < len(array):
                yield name


def _fill_in(records: Records, form: Form) -> Records:
    """Take an empty cell of a CSV for an empty text, where each completion has one."""
    texts = records.columns.get("completion")
    if texts is None or form.name != "TRL":
        return records
    return records._replace(columns={**records.columns, "completion": texts.fill_null("")})


def _other_ids(rows: Rows, form: Form, records: Records) -> Iterator[tuple[str, pa.Array]]:
    """Give the columns that may tell groups apart, as texts."""
    if "group" in records.columns:
        return
    for name in form.possible_ids([*rows.columns]):
        values = rows.columns[name]
        listed = values.to_pylist() if isinstance(values, pa.Array) else values
        yield name, pa.array(map(repr, listed), pa.string())


def _source_of_frame(frame: pd.DataFrame, given: GivenColumns) -> LogSource:
    names = [str(name) for name in frame.columns]
    floats = [pd.api.types.is_float_dtype(kind) for kind in frame.dtypes]
    kinds = [pa.float64() if is_float else pa.null() for is_float in floats]
    where = "the data frame"
    form = recognise(where, dict(zip(names, kinds, strict=True)), given)
    return LogSource(where, form, names, asked=True)


def _faults_left_out(faults: Faults) -> Iterator[LeftOut]:
    if faults.damaged:
        what = "line(s) that are no JSON object: left out"
        yield LeftOut(len(faults.damaged), what, where=faults.damaged[0])
    if faults.early:
        what = "file(s) that end early, read up to there"
        yield LeftOut(len(faults.early), what, where=faults.early[0])


def read_log(
    given: Sequence[Path] | pd.DataFrame,
    columns: GivenColumns | None = None,
    *,
    partial_ok: bool = False,
) -> Log:
    """Read a log: folders and files, or a data frame, with the user's names of columns."""
    collector, faults, columns = Collector(), Faults(partial_ok), columns or {}
    if isinstance(given, pd.DataFrame):
        source = _source_of_frame(given, columns)
        seen = {*_collect(frame_rows(given, source.form.wanted), source.form, collector, 0)}
    else:
        source, seen = find_logs(given, columns), set()
        for number, (file, form) in enumerate(source.files.items()):
            rows = read_rows(file, form.wanted, faults)
            seen.update(_collect(rows, form, collector, number))
    refuse_unseen(source.form, seen, source.name)
    source.left_out += _faults_left_out(faults)
    table = collector.finish()
    if not len(table):
        raise InputError(f"{source.name}: no completions; let the trainer write some")
    return Log(
        source,
        table,
        collector.prompts.labels,
        collector.identities or frozenset(),
        lost=len(faults.damaged),
        cut_off=bool(faults.early),
    )
