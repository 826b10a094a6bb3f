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
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mse_lab.arrays import Floats
from mse_lab.errors import InputError, one_line, shorten, shown
from mse_lab.logs.find_logs import Log, count_left_out, find_logs
from mse_lab.logs.forms import Form, GivenColumns, recognise
from mse_lab.mse.mismatch import token_divergences
from mse_lab.records.records import (
    IDENTITIES,
    MOST_LOG,
    PART,
    find_column,
    is_reward,
    read_records,
    refuse_lengths,
)
from mse_lab.records.rows import (
    FRAME,
    ColumnValues,
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


@dataclass
class _Reader:
    """A log as it is read, some thousand rows of a file at a time."""

    log: Log
    types: dict[str, type] = field(default_factory=dict)  # Of ids, in the file.
    seen: set[str] = field(default_factory=set)  # Names of a record that some row has.
    words: set[str] = field(default_factory=set)  # Added columns that are no numbers.
    numeric: set[str] = field(default_factory=set)  # And those of some numbers.
    tables: list[pd.DataFrame] = field(default_factory=list)

    def read(self, file: int, rows: Iterator[Rows], form: Form) -> None:
        """Read the rows of a file, whose first ones have this form."""
        for some in rows:
            if {*some.columns} - {*form.types}:
                self._refuse_late(some, form)
            if some.numbers:
                self.tables.append(self._table(file, some, form))

    def _refuse_late(self, rows: Rows, form: Form) -> None:
        """Refuse a column that would be read, had the first rows had it."""
        types = dict.fromkeys([*form.types, *form.used, *rows.columns], pa.null())
        used = recognise(rows.path, types, self.log.given).used - form.types.keys()
        for name in [name for name in rows.columns if name in used]:
            known = [at for at, one in enumerate(rows.columns[name]) if one is not None]
            for at in known[:1]:
                has = f"{rows.place(at)}: has {name}, and earlier rows have none"
                none = "" if name in form.used else " or in none"
                raise InputError(f"{has}; give it in every row{none}")

    def _table(self, file: int, rows: Rows, form: Form) -> pd.DataFrame:
        """Give the numbers of some rows."""
        added = form.added([*rows.columns])
        for name in added:
            kinds = {*map(type, listed(rows.columns[name]))} - {type(None)}
            self.words |= {name} if kinds - {bool, int, float} else set()
            self.numeric |= {name} if kinds & {bool, int, float} else set()
        parts = {PART + name: name for name in added if name not in self.words}
        records = read_records(rows, dict(form.columns) | parts)
        if form.blocks and "completion" in records:  # In a CSV an empty text is no cell.
            records["completion"] = records["completion"].fill_null("")
        self.seen |= {name for name, one in records.items() if one.null_count < len(one)}
        table = {
            "file": np.full(len(rows.numbers), file, np.int32),
            "row": np.asarray(rows.numbers, dtype=np.int64),
        }
        for name in [name for name in _HASHED if name in records]:
            self._refuse_two_types(rows, name, form.columns[name])
            labelled = name != "prompt" or "prompt_id" not in records
            table[name] = self._hash(records[name], labelled=labelled)
        if "step" in records:
            table["step"] = records["step"].to_numpy(zero_copy_only=False)
        used = "group" in self.log.given.columns
        for name in () if used else form.possible_ids([*rows.columns]):
            texts = pa.array(map(repr, listed(rows.columns[name])), pa.string())
            table[OTHER + name] = self._hash(texts)
        contents = records.get("token_ids", records.get("completion"))
        if contents is not None:
            table["content"] = self._hash(contents)
        table |= _numbers_of(rows, records)
        if "completion" in records:
            given = find_column(rows, form.columns["completion"]) or ()
            table["characters"] = _characters(given, records["completion"])
        return pd.DataFrame(table, copy=False)

    def _hash(self, names: pa.Array, *, labelled: bool = False) -> NDArray[Any]:
        """Hash names, or tokens by their bytes, NaN for none; keep what a reader sees."""
        if pa.types.is_list(names.type):
            raw = np.ascontiguousarray(names.values.to_numpy(zero_copy_only=False))
            ends = pairwise(names.offsets.to_pylist())
            pieces = [raw[start:end].tobytes() for start, end in ends]
            names = pa.array(pieces, mask=np.asarray(names.is_null()))
        coded = names.dictionary_encode()
        texts = coded.dictionary.to_pylist()
        hashes = [*map(hash, texts)]
        if labelled:
            labels = (shorten(one_line(text[:1000]), 60) for text in texts)
            self.log.labels.update(zip(hashes, labels, strict=True))
        found = np.array(hashes, np.int64)[coded.indices.fill_null(0).to_numpy()]
        return np.where(names.is_null(), np.nan, found) if names.null_count else found

    def _refuse_two_types(self, rows: Rows, name: str, column: str) -> None:
        """Refuse an id that comes in two types."""
        values = find_column(rows, column)
        some = values[:1].to_pylist() if isinstance(values, pa.Array) else values or ()
        for at, kind in enumerate(map(type, some)):
            if kind is not type(None) and kind is not (
                known := self.types.setdefault(name, kind)
            ):
                raise InputError(
                    f"{rows.place(at)}: {name} is of the type {kind.__name__}, in rows "
                    f"before {known.__name__}: one id in two types may be two; write all "
                    "alike"
                )

    def finish(self) -> Log:
        """Return the log."""
        self._refuse_unseen()
        log = self.log
        if not self.tables:
            raise InputError(f"{log.name}: no completions; let the trainer write some")
        table = pd.concat(self.tables, ignore_index=True)
        table = table.drop(columns=[PART + name for name in self.words], errors="ignore")
        _refuse_odd_ids(log, table)
        _refuse_older(log, table)
        identity = next((name for name in ("prompt_id", "prompt") if name in table), "")
        if identity == "prompt_id":
            table = table.drop(columns="prompt", errors="ignore")
            table = table.rename(columns={"prompt_id": "prompt"})
        for name in {"group", *(["prompt"] if identity == "prompt_id" else [])} & {*table}:
            _refuse_two_spellings(pd.Series(table[name].unique()).map(log.labels))
        faults = {
            "line(s) that are no JSON object: left out": log.faults.damaged,
            "file(s) that end early, read up to there": log.faults.early,
            "column(s) of numbers and texts, no part: left out": sorted(
                self.words & self.numeric
            ),
        }
        left_out = (*log.left_out, *count_left_out(faults))
        return replace(log, completions=table, identity=identity, left_out=left_out)

    def _refuse_unseen(self) -> None:
        """Refuse a nested column or an id that the user named, and that no row has."""
        for name, column in self.log.given.columns.items():
            present = any(map(is_reward, self.seen)) if name == "rewards" else False
            known = present or name in self.seen
            if ("." in column or name in IDENTITIES) and not known:
                ours = "reward" if name.startswith(PART) else name
                raise InputError(
                    f"{self.log.name}: no row has {shown(column)}, named by --columns "
                    f"{ours}={column}"
                )


def _refuse_odd_ids(log: Log, table: pd.DataFrame) -> None:
    """Refuse an identity of some completions only, and an id that goes with two texts.

    Such an id counts within a step, perhaps.
    """
    why = "is missing, which other rows have; give it in every row or in none"
    columns = log.form.columns
    for name in [name for name in IDENTITIES if name in table]:
        log.refuse(table, table[name].isna(), f"{columns.get(name, name)} {why}")
    if {"prompt_id", "prompt"} <= {*table}:
        pairs = table[["prompt_id", "prompt"]].drop_duplicates()
        for at in pairs.index[pairs["prompt_id"].duplicated()][:1]:
            label = log.labels[int(table["prompt_id"][at])]
            log.refuse(
                table,
                table.index == at,
                f"prompt_id = {label} goes with two prompts; --columns prompt_id="
                f"{columns['prompt']} if the text identifies them, prompt="
                f"{columns['prompt_id']} if the id does",
            )


def _refuse_older(log: Log, table: pd.DataFrame) -> None:
    """Refuse files that may be of two trainings: by their steps, or in a folder their age.

    Files that were named may share steps, but for TRL's, which writes one for each.
    """
    if "step" not in table or (log.asked and not log.form.blocks):
        return
    files, first = [*log.files], table.groupby("file")["step"].min()
    again = table.drop_duplicates(["file", "step"])
    for step in again["step"][again["step"].duplicated()][:1]:
        some = [str(files[one]) for one in again["file"][again["step"] == step]]
        raise InputError(
            f"step {step} comes in {shorten(' and '.join(some), 300)}: of two trainings? "
            "Name the files of one"
        )
    if log.asked:
        return
    ordered = [files[one] for one in first.sort_values(kind="stable").index]
    times = [file.stat().st_mtime for file in ordered]
    for at in np.flatnonzero(np.maximum.accumulate(times) - times > SECONDS_OF_A_COPY)[:1]:
        newer = ordered[int(np.argmax(times[:at]))].name
        raise InputError(
            f"{ordered[at]}: is older than {newer}, of an earlier step: an older "
            "training's? Name the files of one training"
        )


def _refuse_two_spellings(names: pd.Series) -> None:
    """Refuse ids of which two are one number: a CSV has no types."""
    numbers = pd.to_numeric(names, errors="coerce").dropna().sort_values()
    for at in np.flatnonzero(numbers.duplicated())[:1]:
        first, other = sorted(names[numbers.index[at - 1 : at + 1]])
        raise InputError(
            f"the ids {shorten(first)} and {shorten(other)} are one number in two "
            "spellings; write all alike"
        )


def _floats(values: pa.Array) -> Floats:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=float)


def _numbers_of(
    rows: Rows, columns: Mapping[str, pa.Array]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Give the numbers that do not depend on other records."""
    for name, values in columns.items():
        if name in ("advantage", "truncated") or is_reward(name):
            yield name, _floats(values.cast(pa.float64()))
    lengths = columns.get("length", _drawn_tokens(rows, columns))
    if lengths is not None:
        yield "length", _floats(lengths)
    if {"log_probs", "engine_log_probs"} <= columns.keys():
        yield from _compare(rows, columns).items()


def _characters(given: ColumnValues, texts: pa.Array) -> Floats:
    """Count the characters of texts, of messages those of the policy's turns; else NaN."""
    lengths = _floats(pc.utf8_length(texts))
    if isinstance(given, pa.Array) and not pa.types.is_nested(given.type):
        return lengths
    for at, turns in enumerate(listed(given)):
        if isinstance(turns, list | Mapping):
            try:
                said = [one["content"] for one in turns if one["role"] == "assistant"]
                lengths[at] = len("".join(said)) if said else np.nan
            except (LookupError, TypeError):
                lengths[at] = np.nan
    return lengths


def _drawn_tokens(rows: Rows, columns: Mapping[str, pa.Array]) -> pa.Array | None:
    """Count the tokens that the policy drew."""
    tokens, mask = columns.get("token_ids"), columns.get("mask")
    if mask is None:
        return None if tokens is None else pc.list_value_length(tokens)
    if tokens is not None:
        refuse_lengths(rows, {"token_ids": tokens, "mask": mask})
    row_T, drawn_T = pc.list_parent_indices(mask).to_numpy(), _floats(mask.flatten())
    counts = np.bincount(row_T, drawn_T, len(mask))
    return pa.array(counts, mask=np.asarray(mask.is_null()))


def _compare(rows: Rows, records: Mapping[str, pa.Array]) -> dict[str, Floats]:
    """Compare both log-probabilities of the tokens that the policy drew."""
    names = ("log_probs", "engine_log_probs", "mask")
    lists = {name: records[name] for name in names if name in records}
    refuse_lengths(rows, lists)
    known = reduce(pc.and_, (one.is_valid() for one in lists.values()))
    at_T = pc.list_parent_indices(lists["log_probs"].filter(known)).to_numpy()
    model_T, engine_T, *masks = (
        _floats(one.filter(known).flatten()) for one in lists.values()
    )
    row_T = np.flatnonzero(known)[at_T]
    largest_T = np.maximum(model_T, engine_T)
    for at in np.flatnonzero(largest_T > MOST_LOG)[:1]:
        raise InputError(
            f"{rows.place(int(row_T[at]))}: {largest_T[at]:g} is no log-probability; give "
            "the natural logarithm of each token's probability"
        )
    log_T = model_T - engine_T
    used_T = reduce(np.logical_and, (one > 0 for one in masks), np.isfinite(log_T))
    log_T, row_T = log_T[used_T], row_T[used_T]
    terms = {"tokens": None, "log_ratio": log_T, "kl": token_divergences(log_T)}
    return {
        name: np.bincount(row_T, values_T, len(known)).astype(float)
        for name, values_T in terms.items()
    }


def read_log(
    given: Sequence[Path] | pd.DataFrame, columns: GivenColumns, *, partial_ok: bool
) -> Log:
    """Read a log: folders and files, or a data frame, with the user's names of columns."""
    faults = Faults(partial_ok)
    if isinstance(given, pd.DataFrame):
        floats = map(pd.api.types.is_float_dtype, given.dtypes)
        kinds = [pa.float64() if is_float else pa.null() for is_float in floats]
        types = dict(zip(map(str, given.columns), kinds, strict=True))
        form = recognise(FRAME, types, columns)
        reader = _Reader(Log(FRAME, form, columns, asked=True, faults=faults))
        with reading_rows(FRAME):
            reader.read(0, frame_rows(given, form.wanted), form)
        return reader.finish()
    reader = _Reader(find_logs(given, columns, faults))
    for number, (file, form) in enumerate(reader.log.files.items()):
        with reading_rows(file):
            reader.read(number, read_rows(file, form.wanted, faults), form)
    return reader.finish()
