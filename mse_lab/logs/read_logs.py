"""Read a log: all completions of a folder, files, or a data frame, as one table.

| column | of each completion |
|---|---|
| `file`, `row` | the number of its file, and of its line or row there |
| `prompt`, `group` | the hash of what names its prompt, its group |
| `step` | the training step |
| `reward`, `rewards.NAME` | the total, and that of each reward function |
| `content` | a hash of its tokens or else its text, by which equal ones are found |
| `length`, `characters` | the tokens that the policy drew; the characters of its text |
| `truncated`, `advantage` | 1 where the limit cut it, else 0; the trainer's advantage |
| `tokens`, `log_ratio`, `kl` | the tokens with both log-probabilities; sums over them |
| `others.NAME` | the hash of a column that may be an id, and is not used |

A column is there if the log has it; where a completion lacks the number, it is NaN.
`log_ratio` and `kl` sum log rho and its divergence (`mse/mismatch.py`). Texts stay some
thousand rows in memory, numbers all.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mse_lab.arrays import Floats, Ints
from mse_lab.errors import InputError, one_line, shorten
from mse_lab.logs.find_logs import LeftOut, LogSource, find_logs
from mse_lab.logs.forms import (
    NUMBERS,
    Form,
    GivenColumns,
    added_columns,
    recognise,
    refuse_unseen,
)
from mse_lab.mse.mismatch import token_divergences
from mse_lab.records.records import (
    IDENTITIES,
    MOST_LOG,
    PART,
    find_column,
    is_reward,
    read_records,
)
from mse_lab.records.rows import (
    Faults,
    Rows,
    frame_rows,
    listed,
    read_rows,
    reading_rows,
)

# A folder that is copied has files of nearly one time, in any order.
SECONDS_OF_A_COPY = 600

OTHER = "others."  # Begins the name of the column of an id that is not used.

_HASHED = ("prompt_id", "prompt", "group")


@dataclass(frozen=True)
class Log:
    """A log: what was read, and its completions."""

    source: LogSource
    completions: pd.DataFrame  # Their numbers, a row each.
    labels: Mapping[int, str]  # What a reader sees of a prompt or group, by its hash.
    identities: frozenset[str]  # Which of a record's `IDENTITIES` it has.
    faults: Faults  # What of its files could not be read.


@dataclass
class _Reader:
    """A log as it is read, some thousand rows of a file at a time."""

    given: GivenColumns
    labels: dict[int, str] = field(default_factory=dict)
    types: dict[str, type] = field(default_factory=dict)  # Of ids, in the file.
    seen: set[str] = field(default_factory=set)  # Names of a record that some row has.
    # The types of the cells of columns that a reward function added.
    cells: defaultdict[str, set[type]] = field(default_factory=lambda: defaultdict(set))
    tables: list[pd.DataFrame] = field(default_factory=list)

    def read(
        self, file: int, rows: Iterator[Rows], form: Form, names: Sequence[str]
    ) -> None:
        """Read the rows of a file, whose first ones have these columns."""
        for some in rows:
            if {*some.columns} - {*names}:
                self._refuse_late(some, form, names)
            if some.numbers:
                self.tables.append(self._table(file, some, form))

    def _refuse_late(self, rows: Rows, form: Form, names: Sequence[str]) -> None:
        """Refuse a column that would be read, had the first rows had it."""
        types = dict.fromkeys([*names, *rows.columns], pa.null())
        late = {*recognise(rows.path, types, self.given).columns.values()} - {*names}
        for name in late & {*rows.columns}:
            at = next(n for n, one in enumerate(rows.columns[name]) if one is not None)
            raise InputError(
                f"{rows.place(at)}: has {name}, and the first rows have none; give it in "
                "every row or in none"
            )

    def _table(self, file: int, rows: Rows, form: Form) -> pd.DataFrame:
        """Give the numbers of some rows."""
        added = added_columns(form, rows.columns)
        for name, types in added.items():
            self.cells[name] |= types
        parts = [name for name, types in added.items() if types and types <= NUMBERS]
        records = read_records(
            rows, dict(form.columns) | {PART + name: name for name in parts}
        )
        if form.blocks and "completion" in records:  # In a CSV an empty text is no cell.
            records["completion"] = records["completion"].fill_null("")
        self.seen |= {name for name, one in records.items() if one.null_count < len(one)}
        self._refuse_two_types(rows, form, records)
        table = {
            "file": np.full(len(rows.numbers), file, np.int32),
            "row": np.asarray(rows.numbers, dtype=np.int64),
        }
        for name in [name for name in _HASHED if name in records]:
            table[name], labels = _hash_names(records[name])
            if name != "prompt" or "prompt_id" not in records:
                self.labels = labels | self.labels
        if "step" in records:
            table["step"] = records["step"].to_numpy()
        for name in () if "group" in records else form.possible_ids([*rows.columns]):
            texts = pa.array(map(repr, listed(rows.columns[name])), pa.string())
            table[OTHER + name] = _hash_names(texts)[0]
        return pd.DataFrame(table | dict(_numbers_of(rows, records)), copy=False)

    def _refuse_two_types(
        self, rows: Rows, form: Form, records: Mapping[str, pa.Array]
    ) -> None:
        """Refuse an id that comes in two types; no row lacks it."""
        for name in [name for name in _HASHED if name in records]:
            values = find_column(rows, form.columns[name])
            some = values[:1].to_pylist() if isinstance(values, pa.Array) else values or ()
            types = [*map(type, some)]
            known = self.types.setdefault(name, types[0])
            for at in [at for at, one in enumerate(types) if one is not known][:1]:
                raise InputError(
                    f"{rows.place(at)}: {name} is of the type {types[at].__name__}, in "
                    f"rows before {known.__name__}: one id in two types may be two; write "
                    "all alike"
                )

    def finish(self, source: LogSource, faults: Faults) -> Log:
        """Return the log."""
        refuse_unseen(source.form, self.seen, source.name)
        if not self.tables:
            raise InputError(f"{source.name}: no completions; let the trainer write some")
        _refuse_partly(source, self.tables)
        table = pd.concat(self.tables, ignore_index=True)
        identities = frozenset({*IDENTITIES} & {*table})
        _refuse_other_text(source, table, self.labels)
        _refuse_older(source, table)
        if "prompt_id" in table:
            table = table.drop(columns="prompt", errors="ignore")
            table = table.rename(columns={"prompt_id": "prompt"})
        for name in identities & {"prompt_id", "group"}:
            ids = table[name.removesuffix("_id")].unique()
            _refuse_two_spellings({self.labels[one] for one in ids})
        mixed = sorted(
            name
            for name, types in self.cells.items()
            if types & NUMBERS and types - NUMBERS
        )
        table = table.drop(columns=[PART + name for name in mixed], errors="ignore")
        left_out = [*source.left_out, *_left_out(faults, mixed)]
        source = replace(source, left_out=left_out)
        return Log(source, table, self.labels, identities, faults)


def _refuse_partly(source: LogSource, tables: Sequence[pd.DataFrame]) -> None:
    """Refuse an identity that only some tables have."""
    first, *others = ({*IDENTITIES} & {*table} for table in tables)
    for table, names in zip(tables[1:], others, strict=True):
        for name in sorted(names ^ first)[:1]:
            has = ("has", "none") if name in names else ("has no", "some")
            raise InputError(
                f"{source.place(table, 0)}: {has[0]} {name}, and {has[1]} of the rows "
                "before; give it in every row or in none"
            )


def _refuse_other_text(
    source: LogSource, table: pd.DataFrame, labels: Mapping[int, str]
) -> None:
    """Refuse an id that goes with two texts: it counts within a step, perhaps."""
    if not {"prompt_id", "prompt"} <= {*table}:
        return
    pairs = table[["prompt_id", "prompt"]].drop_duplicates()
    for at in pairs.index[pairs["prompt_id"].duplicated()][:1]:
        raise InputError(
            f"{source.place(table, at)}: prompt_id = {labels[table['prompt_id'][at]]} goes "
            "with two prompts; --columns prompt_id=prompt if the text identifies them, "
            "prompt=prompt_id if the id does"
        )


def _refuse_older(source: LogSource, table: pd.DataFrame) -> None:
    """Refuse files that may be of two trainings: by their steps, or in a folder their age.

    Files that were named may share steps, but for TRL's, which writes one for each.
    """
    if "step" not in table or (source.asked and not source.form.blocks):
        return
    files, first = [*source.files], table.groupby("file")["step"].min()
    again = table.drop_duplicates(["file", "step"])
    for step in again["step"][again["step"].duplicated()][:1]:
        some = [str(files[one]) for one in again["file"][again["step"] == step]]
        raise InputError(
            f"step {step} comes in {shorten(' and '.join(some), 300)}: of two trainings? "
            "Name the files of one"
        )
    if source.asked:
        return
    ordered = [files[one] for one in first.sort_values(kind="stable").index]
    times = [file.stat().st_mtime for file in ordered]
    for at in np.flatnonzero(np.maximum.accumulate(times) - times > SECONDS_OF_A_COPY)[:1]:
        newer = ordered[int(np.argmax(times[:at]))].name
        raise InputError(
            f"{ordered[at]}: is older than {newer}, of an earlier step: an older "
            "training's? Name the files of one training"
        )


def _refuse_two_spellings(names: set[str]) -> None:
    """Refuse ids of which two are one number: a CSV has no types."""
    try:
        numbers = {name: float(name) for name in sorted(names)}
    except ValueError:
        return
    first = dict[float, str]()
    for name, value in numbers.items():
        if first.setdefault(value, name) != name:
            raise InputError(
                f"the ids {shorten(first[value])} and {shorten(name)} are one number in "
                "two spellings; write all alike"
            )


def _hash_names(names: pa.Array) -> tuple[Ints, dict[int, str]]:
    """Give the hash of each name, and what a reader sees of a hash."""
    coded = names.dictionary_encode()
    texts = coded.dictionary.to_pylist()
    hashes = [*map(hash, texts)]
    labels = [shorten(one_line(text[:1000]), 60) for text in texts]
    found = np.array(hashes, dtype=np.int64)[coded.indices.to_numpy()]
    return found, dict(zip(hashes, labels, strict=True))


def _floats(values: pa.Array) -> Floats:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=float)


def _numbers_of(
    rows: Rows, columns: Mapping[str, pa.Array]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Give the numbers that do not depend on other records."""
    for name, values in columns.items():
        if name in ("advantage", "truncated") or is_reward(name):
            yield name, _floats(values.cast(pa.float64()))
    if "completion" in columns:
        yield "characters", _floats(pc.utf8_length(columns["completion"]))
    contents = columns.get("token_ids", columns.get("completion"))
    if contents is not None:
        yield "content", _hashes(contents)
    lengths = columns.get("length", _drawn_tokens(columns))
    if lengths is not None:
        yield "length", _floats(lengths)
    if {"log_probs", "engine_log_probs"} <= columns.keys():
        yield from _compare(rows, columns).items()


def _hashes(contents: pa.Array) -> Floats:
    if pa.types.is_string(contents.type):
        hashes = np.fromiter(map(hash, contents.to_pylist()), float, len(contents))
    else:
        raw = np.ascontiguousarray(contents.values.to_numpy(zero_copy_only=False))
        ends = pairwise(contents.offsets.to_pylist())
        pieces = (hash(raw[start:end].tobytes()) for start, end in ends)
        hashes = np.fromiter(pieces, float, len(contents))
    return np.where(contents.is_null(), np.nan, hashes)


def _entries(lists: pa.Array) -> tuple[Ints, Floats]:
    """Give the row of each entry of lists, and the entry."""
    return pc.list_parent_indices(lists).to_numpy(), _floats(lists.flatten())


def _drawn_tokens(columns: Mapping[str, pa.Array]) -> pa.Array | None:
    """Count the tokens that the policy drew."""
    tokens, mask = columns.get("token_ids"), columns.get("mask")
    if mask is None:
        return None if tokens is None else pc.list_value_length(tokens)
    rows, drawn = _entries(mask)
    counts = np.bincount(rows, weights=drawn, minlength=len(mask))
    return pa.array(counts, mask=np.asarray(mask.is_null()))


def _refuse_lengths(rows: Rows, lists: Mapping[str, pa.Array]) -> None:
    """Refuse lists of a completion that have different lengths."""
    lengths = {name: _floats(pc.list_value_length(one)) for name, one in lists.items()}
    (first, length_N), *others = lengths.items()
    for name, other_N in others:
        for at in np.flatnonzero(np.abs(length_N - other_N) > 0)[:1].tolist():
            raise InputError(
                f"{rows.place(at)}: {length_N[at]:g} {first}, {other_N[at]:g} of {name}; "
                "give one of each for a token"
            )


def _compare(rows: Rows, columns: Mapping[str, pa.Array]) -> dict[str, Floats]:
    """Compare both log-probabilities of the tokens that the policy drew."""
    names = ("log_probs", "engine_log_probs", "mask")
    lists = {name: columns[name] for name in names if name in columns}
    _refuse_lengths(rows, lists)
    known = reduce(pc.and_, (one.is_valid() for one in lists.values()))
    (at_T, model_T), (_, engine_T), *masks = (
        _entries(one.filter(known)) for one in lists.values()
    )
    row_T = np.flatnonzero(known)[at_T]
    largest_T = np.maximum(model_T, engine_T)
    for at in np.flatnonzero(largest_T > MOST_LOG)[:1]:
        raise InputError(
            f"{rows.place(int(row_T[at]))}: {largest_T[at]:g} is no log-probability; give "
            "the natural logarithm of each token's probability"
        )
    log_T = model_T - engine_T
    used_T = np.isfinite(log_T)
    for _, mask_T in masks:
        used_T &= mask_T > 0
    log_T, row_T = log_T[used_T], row_T[used_T]
    terms = {
        "tokens": np.ones_like(log_T),
        "log_ratio": log_T,
        "kl": token_divergences(log_T),
    }
    size = len(rows.numbers)
    return {
        name: np.bincount(row_T, values_T, size).astype(float)
        for name, values_T in terms.items()
    }


def _source_of_frame(frame: pd.DataFrame, given: GivenColumns) -> LogSource:
    names = [str(name) for name in frame.columns]
    floats = [pd.api.types.is_float_dtype(kind) for kind in frame.dtypes]
    kinds = [pa.float64() if is_float else pa.null() for is_float in floats]
    types = dict(zip(names, kinds, strict=True))
    where = "the data frame"
    return LogSource(where, recognise(where, types, given), types, asked=True)


def _left_out(faults: Faults, mixed: Sequence[str]) -> list[LeftOut]:
    """Say which lines, ends of files and columns of two kinds were left out."""
    left_out = {
        "line(s) that are no JSON object: left out": faults.damaged,
        "file(s) that end early, read up to there": faults.early,
        "column(s) hold numbers and texts, and are no part of the reward": mixed,
    }
    return [
        LeftOut(len(all_), what, where=all_[0]) for what, all_ in left_out.items() if all_
    ]


def read_log(
    given: Sequence[Path] | pd.DataFrame,
    columns: GivenColumns | None = None,
    *,
    partial_ok: bool = False,
) -> Log:
    """Read a log: folders and files, or a data frame, with the user's names of columns."""
    faults, reader = Faults(partial_ok), _Reader(columns or {})
    if isinstance(given, pd.DataFrame):
        source = _source_of_frame(given, reader.given)
        with reading_rows(source.name):
            rows = frame_rows(given, source.form.wanted)
            reader.read(0, rows, source.form, [*source.names])
    else:
        source = find_logs(given, reader.given)
        for number, (file, (form, names)) in enumerate(source.files.items()):
            with reading_rows(file):
                reader.read(number, read_rows(file, form.wanted, faults), form, [*names])
    return reader.finish(source, faults)
