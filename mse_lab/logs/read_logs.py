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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from mse_lab.logs.forms import Form, GivenColumns, added_columns, recognise, refuse_unseen
from mse_lab.mse.mismatch import token_divergences
from mse_lab.records.records import (
    IDENTITIES,
    MOST_LOG,
    PART,
    Records,
    read_records,
)
from mse_lab.records.rows import (
    LINES,
    Faults,
    Rows,
    frame_rows,
    listed,
    read_rows,
    reading_rows,
)

_NUMBERS = {bool, int, float}

# A folder that is copied has files of nearly one time, in any order.
SECONDS_OF_A_COPY = 600

OTHER = "others."  # Begins the name of the column of an id that is not used.


@dataclass(frozen=True)
class Log:
    """A log: what was read, and its completions."""

    source: LogSource
    completions: pd.DataFrame  # Their numbers, a row each.
    labels: Mapping[int, str]  # What a reader sees of a prompt or group, by its hash.
    identities: frozenset[str]  # Which of a record's `IDENTITIES` it has.
    lost: int = 0  # Number of lines that are no JSON.
    cut_off: bool = False  # Whether a file ends early.
    partial: bool = False  # Whether what a log lacks is left out, however much it is.

    def place(self, table: pd.DataFrame, at: int) -> str:
        """Name a completion of a table in a message."""
        file, row = (int(table[name].iloc[at]) for name in ("file", "row"))
        name = [*map(str, self.source.files), self.source.name][file]
        unit = "line" if name.endswith((*LINES, ".csv")) else "row"
        return f"{name}, {unit} {row}"


@dataclass
class _Reader:
    """A log as it is read, some thousand rows of a file at a time."""

    given: GivenColumns
    identities: frozenset[str] | None = None  # Which of `IDENTITIES` the log has.
    labels: dict[int, str] = field(default_factory=dict)
    kinds: dict[str, type] = field(default_factory=dict)  # Of ids, in the file.
    texts: dict[int, int] = field(default_factory=dict)  # The text of an id, by hashes.
    seen: set[str] = field(default_factory=set)  # Names of a record that some row has.
    # Added columns of which some cell is a number, and some none.
    numbers: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
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
        numbers = [name for name, kinds in added.items() if kinds and kinds <= _NUMBERS]
        self.numbers |= {name for name, kinds in added.items() if kinds & _NUMBERS}
        self.words |= {name for name, kinds in added.items() if kinds - _NUMBERS}
        records = read_records(
            rows, dict(form.columns) | {PART + name: name for name in numbers}
        )
        columns = dict(records.columns)
        if form.blocks and "completion" in columns:  # In a CSV an empty text is no cell.
            columns["completion"] = columns["completion"].fill_null("")
        records = records._replace(columns=columns)
        self.seen |= {name for name, one in columns.items() if one.null_count < len(one)}
        self._refuse_other_identities(records)
        table = {
            "file": np.full(records.size, file, np.int32),
            "row": np.asarray(rows.numbers, dtype=np.int64),
        }
        table |= dict(self._identities(records))
        for name in () if "group" in columns else form.possible_ids([*rows.columns]):
            shown_N = pa.array(map(repr, listed(rows.columns[name])), pa.string())
            table[OTHER + name] = _hash_names(shown_N)[0]
        return pd.DataFrame(table | dict(_numbers_of(records)), copy=False)

    def _refuse_other_identities(self, records: Records) -> None:
        """Refuse an identity that some rows lack, or that comes in two types."""
        named = frozenset({*IDENTITIES} & {*records.columns})
        self.identities = named if self.identities is None else self.identities
        for name in named ^ self.identities:
            has = ("has", "none") if name in named else ("has no", "some")
            raise InputError(
                f"{records.place(0)}: {has[0]} {name}, and {has[1]} of the rows before; "
                "give it in every row or in none"
            )
        for name, kinds in records.kinds.items():
            for kind, at in sorted(kinds.items(), key=lambda one: one[1]):
                if self.kinds.setdefault(name, kind) is not kind:
                    raise InputError(
                        f"{records.place(at)}: {name} is of the type {kind.__name__}, in "
                        f"rows before {self.kinds[name].__name__}: one id in two types may "
                        "be two; write all alike"
                    )

    def _identities(self, records: Records) -> Iterator[tuple[str, Ints]]:
        columns = records.columns
        if "group" in columns:
            group_N, labels = _hash_names(columns["group"])
            self.labels = labels | self.labels
            yield "group", group_N
        if "step" in columns:
            yield "step", columns["step"].to_numpy()
        names = columns.get("prompt_id", columns.get("prompt"))
        if names is None:
            return
        prompt_N, labels = _hash_names(names)
        self.labels = labels | self.labels
        if {"prompt_id", "prompt"} <= columns.keys():
            self._refuse_other_text(prompt_N, records)
        yield "prompt", prompt_N

    def _refuse_other_text(self, prompt_N: Ints, records: Records) -> None:
        """Refuse an id that goes with two texts: it counts within a step, perhaps."""
        pairs = pd.DataFrame(
            {"id": prompt_N, "text": _hash_names(records.columns["prompt"])[0]}
        )
        for at, number, text in pairs.drop_duplicates().itertuples():
            if self.texts.setdefault(number, text) != text:
                name = records.columns["prompt_id"][at].as_py()
                raise InputError(
                    f"{records.place(at)}: prompt_id = {shorten(name)} goes with two "
                    "prompts; --columns prompt_id=prompt if the text identifies them, "
                    "prompt=prompt_id if the id does"
                )

    def finish(self, source: LogSource, faults: Faults) -> Log:
        """Return the log."""
        refuse_unseen(source.form, self.seen, source.name)
        table = pd.concat(self.tables, ignore_index=True) if self.tables else pd.DataFrame()
        if not len(table):
            raise InputError(f"{source.name}: no completions; let the trainer write some")
        left_out = [*_faults_left_out(faults)]
        if mixed := sorted(self.words & self.numbers):
            what = "column(s) hold numbers and texts, and are no part of the reward"
            left_out.append(LeftOut(len(mixed), what, where=mixed[0]))
        spoilt = [PART + name for name in mixed if PART + name in table]
        if not source.asked:
            _refuse_older(source, table)
        identities = self.identities or frozenset()
        for name in {"prompt", "group"} & {*table}:
            if name == "group" or "prompt_id" in identities:
                _refuse_two_spellings({self.labels[one] for one in table[name].unique()})
        return Log(
            replace(source, left_out=[*source.left_out, *left_out]),
            table.drop(columns=spoilt),
            self.labels,
            identities,
            lost=len(faults.damaged),
            cut_off=bool(faults.early),
            partial=faults.partial,
        )


def _refuse_older(source: LogSource, table: pd.DataFrame) -> None:
    """Refuse files of a folder that may be of two trainings: by steps, or by their age."""
    if "step" not in table:
        return
    files, first = [*source.files], table.groupby("file")["step"].min()
    again = table.drop_duplicates(["file", "step"])
    for step in again["step"][again["step"].duplicated()][:1]:
        some = [files[one].name for one in again["file"][again["step"] == step]]
        raise InputError(
            f"{source.name}: step {step} comes in {shorten(' and '.join(some))}: of two "
            "trainings? Name the files of one"
        )
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


def _numbers_of(records: Records) -> Iterator[tuple[str, NDArray[Any]]]:
    """Give the numbers that do not depend on other records."""
    columns = records.columns
    for name, values in columns.items():
        if name in ("reward", "advantage", "truncated") or name.startswith(PART):
            yield name, _floats(values.cast(pa.float64()))
    if "completion" in columns:
        yield "characters", _floats(pc.utf8_length(columns["completion"]))
    contents = columns.get("token_ids", columns.get("completion"))
    if contents is not None:
        yield "content", _hashes(contents)
    lengths = columns.get("length", _drawn_tokens(records))
    if lengths is not None:
        yield "length", _floats(lengths)
    if {"log_probs", "engine_log_probs"} <= columns.keys():
        yield from _compare(records).items()


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


def _drawn_tokens(records: Records) -> pa.Array | None:
    """Count the tokens that the policy drew."""
    tokens, mask = records.columns.get("token_ids"), records.columns.get("mask")
    if mask is None:
        return None if tokens is None else pc.list_value_length(tokens)
    rows, drawn = _entries(mask)
    counts = np.bincount(rows, weights=drawn, minlength=records.size)
    return pa.array(counts, mask=np.asarray(mask.is_null()))


def _refuse_lengths(records: Records, names: Sequence[str]) -> None:
    """Refuse lists of a completion that have different lengths."""
    lengths = [_floats(pc.list_value_length(records.columns[name])) for name in names]
    for other, name in zip(lengths[1:], names[1:], strict=True):
        for at in np.flatnonzero(np.abs(lengths[0] - other) > 0)[:1]:
            raise InputError(
                f"{records.place(int(at))}: {lengths[0][at]:g} {names[0]}, {other[at]:g} "
                f"of {name}; give one of each for a token"
            )


def _compare(records: Records) -> dict[str, Floats]:
    """Compare both log-probabilities of the tokens that the policy drew."""
    named = ("log_probs", "engine_log_probs", "mask")
    names = [name for name in named if name in records.columns]
    _refuse_lengths(records, names)
    lists = [records.columns[name] for name in names]
    known = lists[0].is_valid()
    for other in lists[1:]:
        known = pc.and_(known, other.is_valid())
    rows = np.flatnonzero(known)
    (at_T, model_T), (_, engine_T), *masks = (_entries(one.filter(known)) for one in lists)
    row_T = rows[at_T]
    for index in np.flatnonzero(np.maximum(model_T, engine_T) > MOST_LOG)[:1]:
        raise InputError(
            f"{records.place(int(row_T[index]))}: {max(model_T[index], engine_T[index]):g} "
            "is no log-probability; give the natural logarithm of each token's probability"
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
    return {
        name: np.bincount(row_T, values_T, records.size).astype(float)
        for name, values_T in terms.items()
    }


def _source_of_frame(frame: pd.DataFrame, given: GivenColumns) -> LogSource:
    names = [str(name) for name in frame.columns]
    floats = [pd.api.types.is_float_dtype(kind) for kind in frame.dtypes]
    kinds = [pa.float64() if is_float else pa.null() for is_float in floats]
    types = dict(zip(names, kinds, strict=True))
    where = "the data frame"
    return LogSource(where, recognise(where, types, given), types, asked=True)


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
